"""FedEx under successive halving against halving alone, with small models over several seeds.

The schedule's shape is that of the papers, nine trainings in the total; what is compared stands in
`plan.toml` before the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.methods import SHA, FedEx
from fedhpo.protocol.method import Method
from fedhpo.research.statistics import Plan
from fedhpo_papers.fedpop.sets import Setting
from fedhpo_papers.shared.planned import Key, Row, run_planned
from fedhpo_papers.shared.runs import go_on

if TYPE_CHECKING:
    from fedhpo.protocol.federation import Federation

PLAN = Path(__file__).with_name("plan.toml")
SETTING = Setting("femnist", {}, "mlp", 30, 270, rows=60, components=48, shape={"hidden": 64})
#: For a number of trials. FedEx has its default discount, so that all methods draw the same configs.
METHODS: Mapping[str, Callable[[int], Method]] = {
    "sha": lambda trials: SHA(trials, finalists=1),
    "fedex": lambda trials: FedEx(schedule="halving", trials=trials),
    "fedex-auto": lambda trials: FedEx.auto(trials=trials),
}


def about(plan: Plan, setting: Setting = SETTING) -> dict[str, Any]:
    """What the runs depend on, JSON-able."""
    return {"plan": asdict(plan), "set": asdict(setting)}


def todo(plan: Plan) -> list[Key]:
    """Seed by seed, so that what is done says as much of every method."""
    cells = [(set, method) for set in plan.sets for method in plan.methods]
    return sorted((seed, set, method) for set, method in cells for seed in plan.seeds(method, set))


def run_seeds(
    plan: Plan,
    path: Path,
    say: Callable[[str], None],
    earlier: Sequence[Row] = (),
    setting: Setting = SETTING,
) -> list[Row]:
    """Run what neither the journal nor `earlier` holds; a row for each seed and method."""
    from fedhpo.federations.simulate import simulate

    made: list[Federation] = []

    def run(key: Key) -> Row:
        if not made:
            made.append(simulate(setting.model, setting.load(), server="fedavgm", workers=0))
        return _run(made[0], setting, key)

    try:
        return run_planned(todo(plan), about(plan, setting), path, run, say, earlier)
    finally:
        for federation in made:
            federation.close()


def _run(federation: Federation, setting: Setting, key: Key) -> Row:
    from fedhpo.tuning.tune import tune

    seed, name, method = key
    facts = tune(
        federation,
        setting.space(),
        METHODS[method](setting.trials),
        rounds=setting.rounds,
        total=setting.total,
        cohort=setting.cohort,
        seed=seed,
    ).facts
    go_on(facts)
    best = facts["best"]
    accuracy = 100 * float(best["test"]["accuracy"])
    #: Trial 0 has the user's own config, here the middle of the space.
    return {"seed": seed, "set": name, "method": method, "accuracy": accuracy, "own": best["trial"] == 0}
