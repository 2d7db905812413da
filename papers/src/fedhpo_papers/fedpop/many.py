"""FedPop at scales that can tell: small models, many paired seeds, and a plan before the first run.

With the same seed all methods have the same first configs, models and cohorts. Each run is a line of a
journal, so that the whole can be stopped anywhere and goes on. Runs come in stages, those that most claims
need first, and seed by seed, so that what was done when it is stopped says as much of every set. Rounds that
methods of one stage have in common are trained once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.methods import SHA, FedEx, FedPop, Tuner
from fedhpo.methods.fedpop.finale import Finale
from fedhpo.methods.fedpop.lineage import lineages
from fedhpo.policies import Cooling
from fedhpo.protocol.method import Method
from fedhpo.research.statistics import Plan
from fedhpo.schedules import Halving
from fedhpo_papers.fedpop.sets import Setting
from fedhpo_papers.shared.planned import Key, Row, run_planned
from fedhpo_papers.shared.remembering import Remembering
from fedhpo_papers.shared.runs import go_on

if TYPE_CHECKING:
    from fedhpo.protocol.federation import Federation

HERE = Path(__file__).parent
_DIRICHLET = {"kind": "dirichlet", "alpha": 0.5}
_SMALL: Mapping[str, Any] = {"rows": 60, "components": 48, "shape": {"hidden": 64}}
#: All rows are 48 principal components, and the model has one hidden layer.
_LAYERS: Mapping[str, Setting] = {
    "femnist": Setting("femnist", {}, "mlp", 30, 150, **_SMALL),
    "fashion": Setting("fashion_mnist", {"clients": 100, "partition": _DIRICHLET}, "mlp", 30, 150, **_SMALL),
    "mnist": Setting("mnist", {"clients": 150}, "mlp", 30, 150, **_SMALL),
    "femnist-long": Setting("femnist", {}, "mlp", 100, 500, **_SMALL),
}
_DEEP: Mapping[str, Setting] = {
    "femnist-cnn": Setting("femnist", {}, "cnn_small", 30, 150, rows=60, shape={"width": 8, "hidden": 32}),
    "shakespeare-lstm": Setting(
        "shakespeare",
        {"clients": 100},
        "lstm",
        60,
        300,
        rows=40,
        epochs=1,
        dropout=False,
        shape={"hidden": 64, "layers": 1},
    ),
}


@dataclass(frozen=True)
class Scale:
    """Where its plan stands, its sets, and what the page says of its models and of what is compared."""

    plan: Path
    sets: Mapping[str, Setting]
    models: str
    besides: str = "`FedPop.auto()` and the authors' own code's way are"


SCALES: Mapping[str, Scale] = {
    "default": Scale(HERE / "plan.toml", _LAYERS, "small models"),
    "deep": Scale(HERE / "plan_deep.toml", _DEEP, "a small CNN and a small LSTM", "`FedPop.auto()` is"),
}
#: Each by its name in the plan, for a number of trials.
METHODS: Mapping[str, Callable[[int], Method | Tuner]] = {
    "sha-3": lambda trials: SHA(trials, finalists=3),
    "auto": lambda trials: FedPop.auto(trials=trials),
    "sha-3-mean": lambda trials: Tuner(Finale(trials, exchange=False)),
    "sha-3-cooling": lambda trials: Tuner(Halving(trials, finalists=3), policy=Cooling()),
    "sha": lambda trials: SHA(trials, finalists=1),
    "fedex-auto": lambda trials: FedEx.auto(trials=trials),
    "fedpop": lambda trials: FedPop(trials, "halving"),
    "fedpop-authors-code": lambda trials: FedPop.authors_code(population=trials),
    "sha-authors-code": lambda trials: FedPop.authors_code(population=trials, exchange=False, local="static"),
    "fedpop-g": lambda trials: FedPop(trials, "halving", local=False),
    "fedpop-l": lambda trials: FedPop(trials, "halving", exchange=False),
}
#: Which methods are run first and second; the others come last.
_STAGES = ("sha-3", "auto", "sha-3-mean", "sha-3-cooling", "sha"), ("fedex-auto", "fedpop")


@dataclass(frozen=True)
class Done:
    """One run; accuracy in points. One in which no trial could be trained counts at chance."""

    method: str
    set: str
    seed: int
    accuracy: float
    lineages: int
    diverged: bool = False


def todo(plan: Plan) -> list[Key]:
    """Seed, set and method of all runs of the plan, in the order in which they are run."""
    found = [
        (seed, set, method) for method in METHODS for set in plan.sets for seed in plan.seeds(method, set)
    ]

    def stage(method: str) -> int:
        return next((i for i, some in enumerate(_STAGES) if method in some), len(_STAGES))

    def order(one: Key) -> tuple[int, int, int]:
        seed, set, method = one
        return stage(method), seed, plan.sets.index(set)

    return sorted(found, key=order)


def about(plan: Plan, sets: Mapping[str, Setting]) -> dict[str, Any]:
    """What the runs depend on, JSON-able."""
    return {"plan": asdict(plan), "sets": {name: asdict(sets[name]) for name in plan.sets}}


def run_all(
    plan: Plan,
    sets: Mapping[str, Setting],
    path: Path,
    say: Callable[[str], None],
    workers: int | None = 0,
    earlier: Sequence[Row] = (),
) -> list[Row]:
    """Run what neither the journal nor `earlier` holds; the rows of all runs of the plan come back."""
    from fedhpo.federations.simulate import simulate

    federations: dict[str, tuple[Remembering, int]] = {}
    last: tuple[int, str] | None = None

    def run(key: Key) -> Row:
        nonlocal last
        seed, name, method = key
        if name not in federations:
            data = sets[name].load()
            made = simulate(sets[name].model, data, server="fedavgm", workers=workers)
            federations[name] = Remembering(made), data.classes or 1
        if last != (seed, name):  # methods share rounds with the same seed only
            for federation, _ in federations.values():
                federation.forget()
            last = seed, name
        return asdict(_run(*federations[name], sets[name], name, method, seed))

    try:
        return run_planned(todo(plan), about(plan, sets), path, run, say, earlier)
    finally:
        for federation, _ in federations.values():
            federation.close()


def _run(federation: Federation, classes: int, setting: Setting, set: str, method: str, seed: int) -> Done:
    from fedhpo.search.events import TuningError
    from fedhpo.tuning.tune import tune

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="fedpop: exchanges")  # part of what is judged
            facts = tune(
                federation,
                setting.space(),
                METHODS[method](setting.trials),
                rounds=setting.rounds,
                total=setting.total,
                cohort=setting.cohort,
                seed=seed,
            ).facts
    except TuningError:
        return Done(method, set, seed, 100 / classes, 0, diverged=True)
    go_on(facts)
    accuracy = 100 * float(facts["best"]["test"]["accuracy"])
    return Done(method, set, seed, accuracy, lineages(facts["trials"]))
