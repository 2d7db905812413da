"""The methods of the bench by name: ours, baselines of others, and `robust` with a part taken away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from fedhpo.core.errors import unknown_name
from fedhpo.methods import GP, METHODS, SHA, Auto, RandomSearch, Robust, Tuner, method_of
from fedhpo.methods.auto import Case, choose
from fedhpo.methods.robust import RobustHalving
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.method import Method
from fedhpo.research.tables import CurveTable
from fedhpo.samplers import OptunaSampler, Random
from fedhpo.schedules import FixedLength
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.search import cohort_of
from fedhpo.space.config import Config
from fedhpo_papers.bench.baselines.learned import Listed, portfolio, proxied
from fedhpo_papers.bench.baselines.optuna import OptunaPruned
from fedhpo_papers.bench.baselines.raced import ClientsAsInstances, Raced, RacedHalving
from fedhpo_papers.bench.settings import TRAININGS, Setting

_FLIP: Literal["permute-and-flip"] = "permute-and-flip"
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


Mechanism = Literal["laplace", "topk", "permute-and-flip", "repeated"]


def _nothing(task: Task) -> Sequence[Config]:
    return ()


@dataclass(frozen=True)
class Entry:
    """A method as the bench runs it: how it is made, which configs come first, how it sees scores.

    `kind` is what a reader compares: what this library recommends (`ours`), methods as they are `known`,
    these with a plain `remedy` for noise, what was `learned` on other data, and `ours` with a part taken away
    (`ablation`). `mechanism` is the private one with the least noise for what it asks. A `slow` one fits a
    process before every trial, and may get fewer seeds.
    """

    name: str
    kind: Literal["ours", "known", "remedy", "learned", "ablation"]
    about: str
    method: Callable[[Task], Method | Tuner]
    mechanism: Mechanism | Callable[[Task], Mechanism] = "laplace"
    accounting: Literal["rotation", "basic"] = "rotation"
    paired: bool | None = None
    slow: bool = False
    enqueued: Callable[[Task], Sequence[Config]] = _nothing

    def evaluator(self, task: Task) -> Evaluator:
        """How it sees scores."""
        setting, privacy = task.setting, None
        if setting.epsilon is not None:
            mechanism = self.mechanism(task) if callable(self.mechanism) else self.mechanism
            privacy = Privacy(setting.epsilon, mechanism=mechanism, accounting=self.accounting, held_out=0.0)
        return Evaluator(clients=setting.clients, paired=self.paired, bias=setting.bias, privacy=privacy)


def _made(method: Method | Tuner) -> Callable[[Task], Method | Tuner]:
    return lambda task: method


def _optuna(sampler: str) -> Tuner:
    return Tuner(FixedLength(side_by_side=1), OptunaSampler(sampler))


def _together(task: Task) -> int:
    """Trials side by side: one, to have an incumbent on the way; all, for one private choice and not many."""
    return 1 if task.setting.epsilon is None else TRAININGS


def _random(task: Task) -> Method:
    return RandomSearch(side_by_side=_together(task))


def _case(task: Task) -> Case:
    setting, clients = task.setting, len(task.table.validation_clients)
    rounds, asked = int(task.table.rounds[-1]), Evaluator(clients=setting.clients).count(clients)
    return Case(rounds, TRAININGS * rounds, clients, asked, setting.epsilon, rotates=True)


def _autos(task: Task) -> Mechanism:
    """What the rule of `auto` names."""
    return _FLIP if choose(_case(task)).mechanism == _FLIP else "laplace"


def _halvings(task: Task) -> Mechanism:
    """That by which halving has less noise: scores, or choices from groups or rungs."""
    return _case(task).mechanism


def _portfolio(task: Task) -> Tuner:
    configs = portfolio(task.table, task.others, TRAININGS)
    return Tuner(FixedLength(side_by_side=_together(task)), Listed(tuple(configs)))


def _first_five(task: Task) -> Sequence[Config]:
    return portfolio(task.table, task.others, _WARM)


def _best_elsewhere(task: Task) -> Sequence[Config]:
    return [proxied(task.table, task.others)]


def _proxy(task: Task) -> Tuner:
    return Tuner(FixedLength(), Listed((proxied(task.table, task.others),)))


def _ours() -> list[Entry]:
    entry = partial(Entry, kind="ours")
    return [
        entry("auto", about="the default, chosen by rule", method=_made(Auto()), mechanism=_autos),
        entry("robust", about="robust halving", method=_made(Robust()), mechanism=_halvings),
    ]


def _known() -> list[Entry]:
    entry = partial(Entry, kind="known")

    def pruned(pruner: str) -> Callable[[Task], Method | Tuner]:
        return _made(OptunaPruned(pruner=pruner))

    return [
        entry("random", about="random search", method=_random, mechanism=_FLIP),
        entry("sha", about="successive halving", method=_made(SHA()), mechanism=_halvings),
        entry("hyperband", about="Hyperband", method=_made(method_of("hyperband")), mechanism=_halvings),
        entry("bohb", about="BOHB", method=_made(method_of("bohb"))),
        entry("tpe", about="TPE", method=_made(method_of("tpe"))),
        entry("gp", about="a Gaussian process", method=_made(GP()), slow=True),
        entry("optuna-tpe", about="Optuna's TPE", method=lambda task: _optuna("TPESampler")),
        entry("optuna-gp", about="Optuna's GPSampler", method=lambda task: _optuna("GPSampler"), slow=True),
        entry("optuna-cmaes", about="Optuna's CMA-ES", method=lambda task: _optuna("CmaEsSampler")),
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
        entry("random+race", about="random search, its trials in a race", method=_made(Tuner(Raced()))),
        entry(
            "sha+race",
            about="halving, its finalists in a race",
            method=_made(Tuner(RacedHalving(finalists=3))),
        ),
        entry(
            "irace", about="random search, clients as instances", method=_made(Tuner(ClientsAsInstances()))
        ),
    ]


def _learned() -> list[Entry]:
    entry = partial(Entry, kind="learned")

    def warm(configs: Callable[[Task], Sequence[Config]]) -> dict[str, Any]:
        return {"method": _made(Robust()), "mechanism": _halvings, "enqueued": configs}

    return [
        entry(
            "portfolio", about="configs learned from other data's tables", method=_portfolio, mechanism=_FLIP
        ),
        entry(
            "portfolio+robust", about="robust, which begins with the first five of them", **warm(_first_five)
        ),
        entry("proxy", about="the best config of other data's tables, trained once", method=_proxy),
        entry("proxy+robust", about="robust, which begins with that config", **warm(_best_elsewhere)),
    ]


def _ablations() -> list[Entry]:
    entry = partial(Entry, kind="ablation", mechanism=_halvings)
    drawn = Tuner(RobustHalving(), Random())
    return [
        entry("robust-once", about="robust, each rung scored once", method=_made(Robust(again=False))),
        entry("robust-unraced", about="robust without the race", method=_made(Robust(race=False))),
        entry(
            "robust-unpaired",
            about="robust, each trial at its own clients",
            method=_made(Robust()),
            paired=False,
        ),
        entry("robust-random", about="robust with random configs", method=_made(drawn)),
        entry("robust-1", about="robust with one rung", method=_made(Robust(rungs=1)), mechanism="laplace"),
        entry("robust-202", about="robust with as many scores as Hyperband takes", method=_made(Robust(202))),
        entry(
            "robust-scores",
            about="robust by private scores, never by choices",
            method=_made(Robust()),
            mechanism="laplace",
        ),
        entry("robust-basic", about="robust without rotation", method=_made(Robust()), accounting="basic"),
    ]


ENTRIES = {one.name: one for one in (*_ours(), *_known(), *_remedies(), *_learned(), *_ablations())}


def entry_named(name: str) -> Entry:
    """A method of the bench: one of `ENTRIES`, of fedhpo's methods, or `package.module:Name`."""
    if name in ENTRIES:
        return ENTRIES[name]
    if ":" not in name and name not in METHODS:
        raise unknown_name("method", name, [*ENTRIES, *METHODS])
    return Entry(name, "ours", name, lambda task: method_of(name))
