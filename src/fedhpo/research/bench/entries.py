"""The methods of the bench by name: ours, baselines of others, and `robust` with a part taken away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from fedhpo.core.errors import unknown_name
from fedhpo.methods import GP, METHODS, SHA, Auto, RandomSearch, Robust, Tuner, method_of
from fedhpo.methods.auto import Case, choose
from fedhpo.methods.robust import RobustHalving
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.method import Method
from fedhpo.research.bench.baselines.learned import Listed, portfolio, proxied
from fedhpo.research.bench.baselines.optuna import OptunaPruned
from fedhpo.research.bench.baselines.raced import ClientsAsInstances, Raced, RacedHalving
from fedhpo.research.bench.settings import TRAININGS, Setting
from fedhpo.research.tables import CurveTable
from fedhpo.samplers import OptunaSampler, Random
from fedhpo.schedules import FixedLength
from fedhpo.search.evaluator import Evaluator
from fedhpo.space.config import Config

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
        return self.table.study.file.budget.cohort


Mechanism = Literal["laplace", "topk", "permute-and-flip", "repeated"]


def _nothing(task: Task) -> Sequence[Config]:
    return ()


@dataclass(frozen=True)
class Entry:
    """A method as the bench runs it: how it is made, which configs come first, how it sees scores.

    `mechanism` is the private one that measured best for it on the development tables. A `slow` one fits a
    process before every trial, and may get fewer seeds.
    """

    name: str
    kind: Literal["ours", "baseline", "ablation"]
    about: str
    method: Callable[[Task], Method | Tuner]
    mechanism: Mechanism | Callable[[Task], Mechanism] = "laplace"
    paired: bool | None = None
    slow: bool = False
    enqueued: Callable[[Task], Sequence[Config]] = _nothing

    def evaluator(self, task: Task) -> Evaluator:
        """How it sees scores."""
        setting, privacy = task.setting, None
        if setting.epsilon is not None:
            mechanism = self.mechanism(task) if callable(self.mechanism) else self.mechanism
            privacy = Privacy(setting.epsilon, mechanism=mechanism)
        return Evaluator(clients=setting.clients, paired=self.paired, bias=setting.bias, privacy=privacy)


def _made(method: Method | Tuner) -> Callable[[Task], Method | Tuner]:
    return lambda task: method


def _optuna(sampler: str) -> Tuner:
    return Tuner(FixedLength(side_by_side=1), OptunaSampler(sampler))


def _one_by_one() -> Callable[[Task], Method | Tuner]:
    """Random search that has an incumbent on the way."""
    return _made(RandomSearch(side_by_side=1))


def _autos(task: Task) -> Mechanism:
    """What the rule of `auto` names."""
    setting, clients = task.setting, len(task.table.validation_clients)
    rounds, asked = int(task.table.rounds[-1]), Evaluator(clients=setting.clients).count(clients)
    case = Case(rounds, TRAININGS * rounds, clients, asked, setting.epsilon, rotates=True)
    return "permute-and-flip" if choose(case).mechanism == "permute-and-flip" else "laplace"


def _portfolio(task: Task) -> Tuner:
    configs = portfolio(task.table, task.others, TRAININGS)
    return Tuner(FixedLength(side_by_side=1), Listed(tuple(configs)))


def _proxy(task: Task) -> Tuner:
    return Tuner(FixedLength(), Listed((proxied(task.table, task.others),)))


def _entries() -> list[Entry]:
    ours, baseline, ablation = "ours", "baseline", "ablation"
    entry = Entry
    optuna = "Optuna's"
    return [
        entry("auto", ours, "the default: by rule one of robust, gp and random", _made(Auto()), _autos),
        entry("random", ours, "random search", _one_by_one(), "permute-and-flip"),
        entry("sha", ours, "successive halving", _made(SHA()), "permute-and-flip"),
        entry("hyperband", ours, "Hyperband", _made(method_of("hyperband")), "permute-and-flip"),
        entry("bohb", ours, "BOHB", _made(method_of("bohb"))),
        entry("tpe", ours, "TPE", _made(method_of("tpe"))),
        entry("gp", ours, "Gaussian process", _made(GP()), slow=True),
        entry("robust", ours, "robust halving", _made(Robust())),
        entry(
            "random+race", baseline, "random search, its trials scored again in a race", _made(Tuner(Raced()))
        ),
        entry(
            "sha+race",
            baseline,
            "successive halving, its finalists in a race",
            _made(Tuner(RacedHalving(finalists=3))),
        ),
        entry(
            "irace",
            baseline,
            "random search, clients as instances of a race",
            _made(Tuner(ClientsAsInstances())),
        ),
        entry("optuna-tpe", baseline, f"{optuna} TPE", _made(_optuna("TPESampler"))),
        entry("optuna-gp", baseline, f"{optuna} GPSampler", _made(_optuna("GPSampler")), slow=True),
        entry("optuna-cmaes", baseline, f"{optuna} CMA-ES", lambda task: _optuna("CmaEsSampler")),
        entry(
            "optuna-hyperband",
            baseline,
            f"{optuna} TPE and Hyperband pruner",
            _made(OptunaPruned(pruner="HyperbandPruner")),
        ),
        entry(
            "optuna-median",
            baseline,
            f"{optuna} TPE and median pruner",
            _made(OptunaPruned(pruner="MedianPruner")),
        ),
        entry(
            "optuna-sha",
            baseline,
            f"{optuna} TPE and halving pruner",
            _made(OptunaPruned(pruner="SuccessiveHalvingPruner")),
        ),
        entry(
            "portfolio",
            baseline,
            "a portfolio learned from tables of other data",
            _portfolio,
            "permute-and-flip",
        ),
        entry(
            "portfolio+robust",
            baseline,
            "robust halving that begins with the portfolio",
            _made(Robust()),
            enqueued=lambda task: portfolio(task.table, task.others, _WARM),
        ),
        entry("proxy", baseline, "the best config of tables of other data, trained once", _proxy),
        entry(
            "proxy+robust",
            baseline,
            "robust halving that begins with that config",
            _made(Robust()),
            enqueued=lambda task: [proxied(task.table, task.others)],
        ),
        entry("robust-once", ablation, "robust without scoring rungs again", _made(Robust(again=False))),
        entry("robust-unraced", ablation, "robust without the race", _made(Robust(race=False))),
        entry(
            "robust-unpaired",
            ablation,
            "robust, each trial at its own clients",
            _made(Robust()),
            paired=False,
        ),
        entry(
            "robust-random", ablation, "robust with random configs", _made(Tuner(RobustHalving(), Random()))
        ),
        entry(
            "robust-202",
            ablation,
            "robust with no more scores than Hyperband takes",
            _made(Robust(scores=202)),
        ),
    ]


ENTRIES = {one.name: one for one in _entries()}


def entry_named(name: str) -> Entry:
    """A method of the bench: one of `ENTRIES`, of fedhpo's methods, or `package.module:Name`."""
    if name in ENTRIES:
        return ENTRIES[name]
    if ":" not in name and name not in METHODS:
        raise unknown_name("method", name, [*ENTRIES, *METHODS])
    return Entry(name, "ours", name, lambda task: method_of(name))
