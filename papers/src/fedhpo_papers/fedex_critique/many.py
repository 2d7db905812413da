"""The critique at a scale that can tell: small models, many worlds, each with clients and arms of its own.

A world's seed draws its clients from those of one deal, its arms and the first model; the truth is each arm
trained alone in that world. What is compared stands in `plan.toml` before the first run. One run is a world
with one number of clients: the truth, and FedEx with every setting that the claims need.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.core.streams import stream
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.space import Float, Space
from fedhpo_papers.fedex_critique.only import only
from fedhpo_papers.fedex_critique.settings import PLAIN, PRETRAIN, REMEDIES
from fedhpo_papers.fedpop.sets import Setting
from fedhpo_papers.shared.planned import Key, Row, run_planned
from fedhpo_papers.shared.runs import go_on

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.protocol.federation import Federation

PLAN = Path(__file__).with_name("plan.toml")
#: What is run in each world besides the truth.
COMPARED: Mapping[str, Mapping[str, Any]] = {**PLAIN, **PRETRAIN, "auto": REMEDIES["auto"]}
#: 30 rounds of a training; the others' rows to validate and test on go to one more client.
SETTING = Setting(
    "fashion_mnist", {"clients": 200}, "mlp", 30, 30, rows=60, components=48, shape={"hidden": 32}
)
ARMS = 27
_BATCH = 16


@dataclass(frozen=True)
class CritiquePlan:
    """How many worlds, from which seed on, and what `auto()` is compared with, by metric and clients."""

    first_seed: int
    replicates: int
    clients: tuple[int, ...]
    chosen: Mapping[str, Mapping[int, str]]

    @classmethod
    def load(cls, path: Path = PLAN) -> CritiquePlan:
        """Read it."""
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        chosen = {
            what: {int(clients): name for clients, name in some.items()}
            for what, some in told["chosen"].items()
        }
        return cls(int(told["first_seed"]), int(told["replicates"]), tuple(told["clients"]), chosen)

    @property
    def wanted(self) -> list[Key]:
        """All runs, world by world."""
        seeds = range(self.first_seed, self.first_seed + self.replicates)
        return [(seed, f"B{clients}", "world") for seed in seeds for clients in self.clients]


def about(plan: CritiquePlan, setting: Setting = SETTING, arms: int = ARMS) -> dict[str, Any]:
    """What the runs depend on, JSON-able."""
    return {"plan": asdict(plan), "set": asdict(setting), "number_of_arms": arms, "settings": dict(COMPARED)}


def space(setting: Setting) -> Space:
    """The paper's four hyperparameters."""
    return Space(
        client={
            "lr": Float(1e-4, 1e-1, log=True),
            "momentum": Float(0.0, 0.99),
            "weight_decay": Float(1e-5, 1e-1, log=True),
            "dropout": Float(0.0, 0.5),
            "batch_size": _BATCH,
            "epochs": 1,
        },
        server={"lr": 1.0},
        model=dict(setting.shape),
    )


def world(data: FederatedData, seed: int, clients: int, most: int) -> FederatedData:
    """So many of the `most` clients of the world with this seed; the rest of the data validates and tests."""
    own = stream(seed, "world").choice(data.clients, most, replace=False)[:clients]
    return only(data, own.tolist())


def run_worlds(
    plan: CritiquePlan,
    path: Path,
    say: Callable[[str], None],
    earlier: Sequence[Row] = (),
    setting: Setting = SETTING,
    arms: int = ARMS,
) -> list[Row]:
    """Run what neither the journal nor `earlier` holds; a row for each world and number of clients."""
    from fedhpo.federations.simulate import simulate

    whole: list[FederatedData] = []

    def run(key: Key) -> Row:
        if not whole:
            whole.append(setting.load())
        seed, name, method = key
        clients = int(name[1:])
        data = world(whole[0], seed, clients, max(plan.clients))
        with simulate(setting.model, data, workers=0) as federation:
            found = _world(federation, setting, seed, clients, arms)
        accuracy = 100 * found["settings"]["auto"]["accuracy"]
        return {"seed": seed, "set": name, "method": method, "accuracy": accuracy, **found}

    return run_planned(plan.wanted, about(plan, setting, arms), path, run, say, earlier)


def _world(federation: Federation, setting: Setting, seed: int, clients: int, count: int) -> dict[str, Any]:
    """The truth, and what every setting came to."""
    from fedhpo.methods import Tuner
    from fedhpo.methods.fedex.policy import FedExPolicy
    from fedhpo.schedules import FixedLength
    from fedhpo.search.events import TuningError
    from fedhpo.tuning.tune import tune
    from fedhpo_papers.fedex_critique.command import Cell, measured
    from fedhpo_papers.shared.train_alone import train_alone

    within, rng = space(setting), stream(seed, "arms")
    start = LearnedPolicy.uniform([within.sample(rng).client for _ in range(count)])
    truth = train_alone(federation, within, start.arms, rounds=setting.rounds, cohort=clients, seed=seed)
    found: dict[str, Any] = {}
    for name, options in COMPARED.items():
        facts: Mapping[str, Any] | None = None
        try:
            facts = tune(
                federation,
                within,
                Tuner(FixedLength(1), policy=FedExPolicy(start=start, **options)),
                rounds=setting.rounds,
                total=setting.rounds,
                cohort=clients,
                seed=seed,
            ).facts
            go_on(facts)
        except TuningError:
            facts = None
        row = measured(Cell("plain", clients, name, seed), facts, truth)
        if facts is None:
            row["accuracy"] = 1 / 10  # diverged: at chance
        found[name] = {what: _finite(row[what]) for what in _KEPT}
    return {"truth": list(truth.values), "settings": found}


_KEPT = (
    "failed",
    "accuracy",
    "kendall",
    "spearman",
    "average_precision",
    "regret",
    "used_kendall",
    "collapse",
    "rounds_before",
)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def flat(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each setting, world and number of clients, as the claims take them."""
    return [
        {"part": "plain", "clients": int(row["set"][1:]), "seed": row["seed"], "setting": name, **values}
        for row in rows
        for name, values in row["settings"].items()
    ]
