"""The work of FLoRA's experiments, kept on disk: searches line by line, what surfaces recommend, defaults.

Everything is a function of its name, so a run that was killed goes on where it was: a search has a file with
one line for each config that was evaluated, the rest are small files that are there or not.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.streams import derive
from fedhpo.methods.flora.surfaces import SURFACES, diagnose, fit_surface, minimise
from fedhpo.methods.flora.surfaces.heterogeneity import best_scores
from fedhpo.queries.pairs import PartyPairs
from fedhpo.samplers import TPE, Asker
from fedhpo.space.config import Config
from fedhpo.workers.pool import Handler
from fedhpo.workers.processes import Processes, pickled
from fedhpo_papers.flora.data import Problem, Trees, learner_of

#: Seeds of the folds (and of the learner) that the default config is scored with; regrets are of the first.
FOLD_SEEDS = (0, 1, 2)
#: Stands for all rows in one place.
CENTRAL = -1
#: So many parties are diagnosed; of more, leaving each out takes longer than all else.
FEW = 10


@dataclass(frozen=True)
class Search:
    """A search of `tries` configs at a party, or with all rows in one place (`CENTRAL`)."""

    problem: Problem
    party: int
    tries: int

    @property
    def name(self) -> str:
        if self.party == CENTRAL:
            return f"{self.problem.central_name}-central"
        return f"{self.problem.name}-party{self.party}"

    def file(self, folder: Path) -> Path:
        """Its lines."""
        return folder / "searches" / f"{self.name}.jsonl"

    def done(self, folder: Path) -> bool:
        """Whether all lines are there."""
        return len(read_lines(self.file(folder))) >= self.tries

    def run(self, folder: Path) -> None:
        """Evaluate what is missing; what comes next follows from the lines before it alone."""
        file = self.file(folder)
        lines = read_lines(file)
        space = learner_of(self.problem).space
        assert space is not None
        asker = Asker(
            space, TPE(multivariate=False), seed=derive(0, self.name), limit=self.tries, purpose=("search",)
        )
        for line in lines:
            asker.add(Config.from_dict(line["config"]), line["loss"])
        with _appended(file, len(lines)) as add:
            while (config := asker.ask()) is not None:
                loss = self._loss(config)
                add({"config": config.to_dict(), "loss": loss})
                asker.tell(config, loss)

    def _loss(self, config: Config) -> float:
        if self.party == CENTRAL:
            return _or_worst(partial(self.problem.central_loss, config))
        return _or_worst(partial(self.problem.loss, self.party, config))

    def pairs(self, folder: Path) -> PartyPairs:
        """What the party would send."""
        lines = read_lines(self.file(folder))[: self.tries]
        configs = tuple(Config.from_dict(line["config"]) for line in lines)
        size = 1 if self.party == CENTRAL else self.problem.size(self.party)
        return PartyPairs(max(0, self.party), size, configs, tuple(line["loss"] for line in lines))


@dataclass(frozen=True)
class Recommend:
    """What each surface recommends after so many tries of which so many pairs were sent, and its score."""

    problem: Problem
    tries: int
    sent: int | None = None

    @property
    def name(self) -> str:
        sent = "" if self.sent is None else f"-best{self.sent}"
        return f"{self.problem.name}-of-{self.problem.central_name}-T{self.tries}{sent}"

    def file(self, folder: Path) -> Path:
        """Where it is kept."""
        return folder / "recommended" / f"{self.name}.json"

    def done(self, folder: Path) -> bool:
        """Whether it is there."""
        return self.file(folder).is_file()

    def run(self, folder: Path) -> None:
        """Fit, minimise, and score with all rows in one place."""
        parties = self.parties(folder)
        space = learner_of(self.problem).space
        assert space is not None
        found: dict[str, Any] = {"surfaces": {}}
        known: dict[Config, float] = {}
        seed = derive(0, self.name)
        for name in SURFACES:
            config, predicted = minimise(fit_surface(name, space, parties, seed=seed), space, seed)
            if config not in known:
                known[config] = _or_worst(partial(self.problem.central_loss, config))
            found["surfaces"][name] = {
                "config": config.to_dict(),
                "predicted": predicted,
                "loss": known[config],
            }
        scores = best_scores(parties)
        found |= {"pmin": min(scores), "pmax": max(scores)}
        if len(parties) <= FEW:
            found["recommended"] = diagnose(space, parties, seed=seed)["recommended"]
        write_json(self.file(folder), found)

    def parties(self, folder: Path) -> list[PartyPairs]:
        """What the parties sent."""
        sent = [
            Search(self.problem, party, self.tries).pairs(folder) for party in range(self.problem.members)
        ]
        return sent if self.sent is None else [party.best(self.sent) for party in sent]


@dataclass(frozen=True)
class Default:
    """The score of the default config, with all rows in one place, over several deals of the folds."""

    problem: Problem
    seeds: tuple[int, ...] = FOLD_SEEDS

    @property
    def name(self) -> str:
        return f"{self.problem.central_name}-default"

    def file(self, folder: Path) -> Path:
        """Where it is kept."""
        return folder / "defaults" / f"{self.name}.json"

    def done(self, folder: Path) -> bool:
        """Whether it is there."""
        return self.file(folder).is_file()

    def run(self, folder: Path) -> None:
        """Score it."""
        config = Config(client=learner_of(self.problem).default)
        losses = [self.problem.central_loss(config, seed) for seed in self.seeds]
        write_json(self.file(folder), {"losses": losses})


Task = Search | Recommend | Default


def _or_worst(loss: Callable[[], float]) -> float:
    """The loss, or 1, as bad as can be, of what the estimator cannot be trained with."""
    try:
        return loss()
    except InputError:
        raise
    except (ValueError, FloatingPointError):
        return 1.0


def do_all(tasks: Sequence[Task], folder: Path, workers: int, say: Callable[[str], None]) -> None:
    """Do what has not been done, in the order given, on worker processes if there are several."""
    longest: dict[Path, Task] = {}
    for task in tasks:
        # Two tables may want the same search, one of them more of it; a file has one writer.
        other = longest.get(task.file(folder))
        if other is None or (
            isinstance(task, Search) and isinstance(other, Search) and task.tries > other.tries
        ):
            longest[task.file(folder)] = task
    todo = [task for task in longest.values() if not task.done(folder)]
    # A federated training has processes of its own, which watch over each other from here.
    here = [task for task in todo if workers == 1 or _federated(task)]
    there = [task for task in todo if task not in here]
    ended = 0

    def note(task: Task) -> None:
        nonlocal ended
        ended += 1
        say(f"{ended} of {len(todo)}: {task.name}")

    for task in _on_workers(there, folder, workers):
        note(task)
    for task in here:
        task.run(folder)
        note(task)


def _federated(task: Task) -> bool:
    return isinstance(task.problem, Trees) and not isinstance(task, Search)


def _on_workers(tasks: Sequence[Task], folder: Path, workers: int) -> Iterator[Task]:
    """Do the tasks on so many processes; each comes back when it is done."""
    # One at a time: a long task that waited behind another would leave a worker idle at the end.
    pool: Processes[Task] = Processes(min(workers, len(tasks)), _prepare, pickled(folder), held=1)
    try:
        for task in tasks:
            pool.submit(task)
        for _ in tasks:
            ended = pool.next()
            assert ended is not None
            if ended.failure:
                raise FedhpoError(f"{ended.job.name}: {ended.failure}; what was done is kept, run it again")
            yield ended.job
    finally:
        pool.close()


def _prepare(folder: Path) -> Handler[Task]:
    return lambda task: task.run(folder)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """All whole lines; one that was cut off by a kill does not count."""
    if not file.is_file():
        return []
    whole = file.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


class _appended:
    """Adds lines to a file that has so many whole ones; what is behind these is cut off first."""

    def __init__(self, file: Path, lines: int) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file.open("a+b")
        self._file.seek(0)
        whole = sum(len(self._file.readline()) for _ in range(lines))
        self._file.truncate(whole)

    def __enter__(self) -> Callable[[dict[str, Any]], None]:
        return self._add

    def _add(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def __exit__(self, *_: object) -> None:
        self._file.close()


def write_json(file: Path, content: dict[str, Any]) -> None:
    """The file as a whole, or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(content), encoding="utf-8")
    aside.replace(file)


def read_json(file: Path) -> dict[str, Any]:
    """What `write_json` wrote."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def trainings_to_match(losses: Sequence[float], target: float) -> float:
    """How many trainings a search needs to be as good as `target`; infinite if it never is.

    >>> trainings_to_match([0.5, 0.3, 0.4], 0.35), trainings_to_match([0.5], 0.1)
    (2, inf)
    """
    return next((place + 1 for place, loss in enumerate(losses) if loss <= target), math.inf)
