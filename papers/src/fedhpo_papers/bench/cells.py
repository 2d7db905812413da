"""One cell of the bench: a method on a sample of a table, under one setting, with one seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedhpo.core.errors import FedhpoError, InputError, MissingExtraError
from fedhpo.research.incumbents import value_at
from fedhpo.research.tables import CurveTable, load_table
from fedhpo.research.tables.replay import Replay, replay
from fedhpo.search.evaluator import Evaluator
from fedhpo_papers.bench.entries import Entry, Task, entry_named
from fedhpo_papers.bench.sample import Sample, sample_of
from fedhpo_papers.bench.settings import TRAININGS, Setting

#: Shares of the budget at which incumbents are judged.
GRID = tuple((step + 1) / 12 for step in range(12))
#: So often a total is cut until a method's messages fit.
_CUTS = 6


@dataclass(frozen=True)
class Cell:
    """What is to be replayed. `table` is a name or a file, `others` the tables that may be learned from."""

    table: str
    setting: Setting
    method: str
    seed: int
    others: tuple[str, ...] = ()


def play(cell: Cell) -> dict[str, Any]:
    """What the method comes to, JSON-able; `refused` says why where a table cannot replay it."""
    key = {"table": load(cell.table).name, "setting": cell.setting.name, "method": cell.method}
    try:
        return {**key, "seed": cell.seed, **_played(cell)}
    except (InputError, MissingExtraError) as error:
        return {**key, "seed": cell.seed, "refused": str(error)}
    except ImportError as error:  # such as cmaes, for Optuna's CMA-ES
        return {**key, "seed": cell.seed, "refused": f"the package {error.name} is not installed"}
    except FedhpoError as error:  # trials of a table may fail, all of a search's among them
        return {**key, "seed": cell.seed, "failed": str(error)}


def _played(cell: Cell) -> dict[str, Any]:
    sample = _sample(cell.table, cell.seed)
    entry = entry_named(cell.method)
    others = tuple(load(name) for name in cell.others) if entry.kind == "learned" else ()
    task = Task(sample.table, cell.setting, others, cell.seed)
    found, total = priced(entry, task)
    config = sample.table.configs.index(found.best)
    regret = sample.regret(config, found.round)
    best = 100 * found.truth - regret
    spent = [value_at(found.incumbents, share * total * (1 + 1e-9)) for share in GRID]
    return {
        "regret": round(regret, 4),
        "elsewhere": round(sample.regret_elsewhere(config, found.round), 4),
        "curve": [None if math.isnan(truth) else round(100 * truth - best, 2) for truth in spent],
        "rounds": found.rounds,
        "evaluations": found.evaluations,
        "messages": messages(found, task.cohort),
        "trials": found.trials,
        "epsilon": found.epsilon,
    }


def priced(entry: Entry, task: Task) -> tuple[Replay, int]:
    """The replay and its total: `TRAININGS` full trainings, or what random search's messages pay for."""
    rounds = int(task.table.rounds[-1])
    total = TRAININGS * rounds
    found = _replay(entry, task, total)
    if task.setting.equal == "messages":
        asked = Evaluator(clients=task.setting.clients).count(len(task.table.validation_clients))
        allowed = TRAININGS * (rounds * task.cohort + asked)
        for _ in range(_CUTS):
            if (paid := messages(found, task.cohort)) <= allowed:
                break
            total = max(rounds, min(total - 1, int(total * allowed / paid)))
            found = _replay(entry, task, total)
    return found, total


def messages(found: Replay, cohort: int) -> int:
    """Messages of clients: one for each round that each trained in, one for each trial that each scored."""
    return found.rounds * cohort + found.evaluations


def _replay(entry: Entry, task: Task, total: int) -> Replay:
    study = entry.study(task, total)
    return replay(
        task.table,
        study.method,
        total=total,
        seed=task.seed,
        objective=study.objective,
        evaluation=study.evaluator,
        enqueued=[study.space.default(), *map(study.space.complete, study.file.enqueue)],
    )


@lru_cache(maxsize=8)
def load(name: str) -> CurveTable:
    """A table, read once in each process."""
    return load_table(name)


@lru_cache(maxsize=2)
def _sample(name: str, seed: int) -> Sample:
    return sample_of(load(name), seed)
