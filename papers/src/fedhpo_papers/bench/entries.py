"""The methods of the bench by name: ours, baselines of others, and `robust` with a part taken away.

Each is what a study file can say: sections [method], [evaluation] and [[enqueue]] beside those of the table's
own study. The bench plays that study, so that `fedhpo tune` comes to the same config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from fedhpo.core.errors import unknown_name
from fedhpo.methods import METHODS
from fedhpo.methods.auto import Case
from fedhpo.research.tables import CurveTable
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.search import cohort_of
from fedhpo.space.config import Config
from fedhpo.study import Study
from fedhpo_papers.bench.baselines import optuna, raced
from fedhpo_papers.bench.baselines.learned import portfolio, proxied
from fedhpo_papers.bench.sample import OBJECTIVE
from fedhpo_papers.bench.settings import TRAININGS, Setting

#: Configs of a portfolio that `robust` begins with.
_WARM = 5


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is made for: a table, a setting, other tables to learn from, a seed."""

    table: CurveTable
    setting: Setting
    others: tuple[CurveTable, ...]
    seed: int

    @property
    def cohort(self) -> int:
        """Clients that train in a round."""
        return cohort_of(self.table.study.file.budget.cohort, len(self.table.train_clients))


Table = Mapping[str, Any]
#: A section of a study, or how it follows from the task.
Section = Table | Callable[[Task], Table]


def _nothing(task: Task) -> Sequence[Config]:
    return ()


def _of(section: Section, task: Task) -> dict[str, Any]:
    return dict(section(task) if callable(section) else section)


def _private(mechanism: str, **more: Any) -> Table:
    return {"mechanism": mechanism, "held_out": 0.0, **more}


_LAPLACE, _FLIP = _private("laplace"), _private("permute-and-flip")


@dataclass(frozen=True)
class Entry:
    """A method as the bench runs it: what a study file says of it.

    `kind` is what a reader compares: what this library recommends (`ours`), methods as they are `known`,
    these with a plain `remedy` for noise, what was `learned` on other data, and `ours` with a part taken away
    (`ablation`). `method` is its [method]; `privacy` what [evaluation.privacy] says beside epsilon: of
    methods other than `auto` the mechanism with the least noise for what they ask, and nobody held out. A
    `slow` one fits a process before every trial, and may get fewer seeds.
    """

    name: str
    kind: Literal["ours", "known", "remedy", "learned", "ablation"]
    about: str
    method: Section = field(default_factory=dict)
    privacy: Section = field(default_factory=lambda: _LAPLACE)
    paired: bool | None = None
    slow: bool = False
    enqueued: Callable[[Task], Sequence[Config]] = _nothing

    def study(self, task: Task, total: int | None = None) -> Study:
        """The whole study; its total is `TRAININGS` full trainings, or the one given."""
        own, setting = task.table.study.given, task.setting
        rounds = int(task.table.rounds[-1])
        evaluation: dict[str, Any] = {}
        if setting.clients is not None:
            evaluation |= {"clients": setting.clients}
            evaluation |= {} if self.paired is None else {"paired": self.paired}
        evaluation |= {"bias": setting.bias} if setting.bias else {}
        evaluation |= {"bias_per": setting.bias_per} if setting.bias_per != "trial" else {}
        if setting.epsilon is not None:
            evaluation["privacy"] = {"epsilon": setting.epsilon, **_of(self.privacy, task)}
        given = {key: own[key] for key in own if key not in ("method", "objectives", "constraints", "proxy")}
        given |= {
            "seed": task.seed,
            "objective": {"metric": OBJECTIVE.metric, "weighting": OBJECTIVE.weighting},
            "evaluation": evaluation,
            "method": _of(self.method, task),
            "budget": {**own["budget"], "rounds": rounds, "total": total or TRAININGS * rounds},
            "enqueue": [scoped(config) for config in self.enqueued(task)],
        }
        if setting.epsilon is not None:
            given["objective"].pop("weighting")  # private scores are uniform by themselves
        return Study.from_dict(given)


def scoped(config: Config) -> dict[str, dict[str, Any]]:
    """A config as [[enqueue]] takes it."""
    found = {scope: dict(getattr(config, scope)) for scope in ("client", "server", "model", "policy")}
    return {scope: values for scope, values in found.items() if values}


def _optuna(sampler: str) -> Table:
    schedule = {"name": "fixed", "side_by_side": 1}
    return {"schedule": schedule, "sampler": {"name": "optuna", "sampler": sampler}}


def _random(task: Task) -> Table:
    """One trial after the other, to have an incumbent on the way; all at once for one private choice."""
    return {"name": "random", "side_by_side": 1 if task.setting.epsilon is None else TRAININGS}


def _raced(name: str, **settings: Any) -> Table:
    return {"schedule": {"name": f"{raced.__name__}:{name}", **settings}}


def _named(name: str, **settings: Any) -> Table:
    return {"name": name, **settings}


def _halvings(task: Task) -> Table:
    """That by which halving has less noise: scores, or choices from groups or rungs."""
    setting, clients = task.setting, len(task.table.validation_clients)
    rounds, asked = int(task.table.rounds[-1]), Evaluator(clients=setting.clients).count(clients)
    case = Case(rounds, TRAININGS * rounds, clients, asked, setting.epsilon, rotates=True, cohort=task.cohort)
    return _private(case.mechanism)


def _portfolio(task: Task) -> Sequence[Config]:
    return portfolio(task.table, task.others, TRAININGS)


def _first_five(task: Task) -> Sequence[Config]:
    return portfolio(task.table, task.others, _WARM)


def _best_elsewhere(task: Task) -> Sequence[Config]:
    return [proxied(task.table, task.others)]


def _ours() -> list[Entry]:
    entry = partial(Entry, kind="ours")
    return [
        entry("auto", about="the default, chosen by rule", privacy={}),
        entry("robust", about="robust halving", method=_named("robust"), privacy=_halvings),
    ]


def _known() -> list[Entry]:
    entry = partial(Entry, kind="known")

    def pruned(pruner: str) -> Table:
        return _named(f"{optuna.__name__}:OptunaPruned", pruner=pruner)

    return [
        entry("random", about="random search", method=_random, privacy=_FLIP),
        entry("sha", about="successive halving", method=_named("sha"), privacy=_halvings),
        entry("hyperband", about="Hyperband", method=_named("hyperband"), privacy=_halvings),
        entry("bohb", about="BOHB", method=_named("bohb")),
        entry("tpe", about="TPE", method=_named("tpe")),
        entry("gp", about="a Gaussian process", method=_named("gp"), slow=True),
        entry("optuna-tpe", about="Optuna's TPE", method=_optuna("TPESampler")),
        entry("optuna-gp", about="Optuna's GPSampler", method=_optuna("GPSampler"), slow=True),
        entry("optuna-cmaes", about="Optuna's CMA-ES", method=_optuna("CmaEsSampler")),
        entry(
            "optuna-hyperband", about="Optuna's TPE and Hyperband pruner", method=pruned("HyperbandPruner")
        ),
        entry("optuna-median", about="Optuna's TPE and median pruner", method=pruned("MedianPruner")),
        entry(
            "optuna-sha", about="Optuna's TPE and halving pruner", method=pruned("SuccessiveHalvingPruner")
        ),
    ]


def _remedies() -> list[Entry]:
    entry = partial(Entry, kind="remedy")
    return [
        entry("random+race", about="random search, its trials in a race", method=_raced("Raced")),
        entry(
            "sha+race", about="halving, its finalists in a race", method=_raced("RacedHalving", finalists=3)
        ),
        entry("irace", about="random search, clients as instances", method=_raced("ClientsAsInstances")),
    ]


def _learned() -> list[Entry]:
    entry = partial(Entry, kind="learned")
    warm = partial(entry, method=_named("robust"), privacy=_halvings)
    return [
        entry(
            "portfolio",
            about="configs learned from other data's tables",
            method=_random,
            privacy=_FLIP,
            enqueued=_portfolio,
        ),
        warm(
            "portfolio+robust",
            about="robust, which begins with the first five of them",
            enqueued=_first_five,
        ),
        entry(
            "proxy",
            about="the best config of other data's tables, trained once",
            method=_named("random", trials=1),
            enqueued=_best_elsewhere,
        ),
        warm("proxy+robust", about="robust, which begins with that config", enqueued=_best_elsewhere),
    ]


def _ablations() -> list[Entry]:
    entry = partial(Entry, kind="ablation", privacy=_halvings)
    robust = partial(_named, "robust")
    drawn = {"schedule": {"name": "robust"}, "sampler": {"name": "random"}}
    return [
        entry("robust-once", about="robust, each rung scored once", method=robust(again=False)),
        entry("robust-unraced", about="robust without the race", method=robust(race=False)),
        entry(
            "robust-unpaired", about="robust, each trial at its own clients", method=robust(), paired=False
        ),
        entry("robust-random", about="robust with random configs", method=drawn),
        entry("robust-1", about="robust with one rung", method=robust(rungs=1), privacy=_LAPLACE),
        entry("robust-202", about="robust with as many scores as Hyperband takes", method=robust(scores=202)),
        entry(
            "robust-scores",
            about="robust by private scores, never by choices",
            method=robust(),
            privacy=_LAPLACE,
        ),
        entry(
            "robust-basic",
            about="robust without rotation",
            method=robust(),
            privacy=_private("laplace", accounting="basic"),
        ),
    ]


ENTRIES = {one.name: one for one in (*_ours(), *_known(), *_remedies(), *_learned(), *_ablations())}


def entry_named(name: str) -> Entry:
    """A method of the bench: one of `ENTRIES`, of fedhpo's methods, or `package.module:Name`."""
    if name in ENTRIES:
        return ENTRIES[name]
    if ":" not in name and name not in METHODS:
        raise unknown_name("method", name, [*ENTRIES, *METHODS])
    return Entry(name, "ours", name, _named(name))
