"""Does tuning matter when adapters are trained? The character GPT, from Shakespeare to Stack Exchange.

For each seed: four published settings, random search and `auto` at equal rounds, judged by the loss on the
users' test text, which no method scored on. And, for four peak rates of a cosine, whether the best one at a
third of the rounds is the best one at the end: on a schedule as long as the training, or as the rung.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from char_gpt import base, posts

import fedhpo as fh

ROUNDS, TOTAL, COHORT, RUNG = 12, 48, 5, 4
STEPS = {"optimiser": "adamw", "max_steps": 10, "batch_size": 8}
#: rank, alpha, dropout, rate: the source says where.
PUBLISHED = {
    "FlowerTune": (32, 64, 0.075, 5e-5),
    "FedIT": (16, 16, 0.05, 3e-4),
    "FederatedScope-LLM": (8, 16, 0.05, 3e-4),
    "FedSA-LoRA": (8, 16, 0.05, 2e-2),
}
PEAKS = (3e-3, 1e-2, 2e-2, 3e-2)
SPACE = fh.Space(
    client={**STEPS, "lr": fh.Float(1e-5, 1e-1, log=True), "lr_schedule": "cosine"},
    model={
        "rank": fh.Choice([1, 2, 4, 8, 16, 32]),
        "alpha": fh.Choice(["rank", "2 * rank"]),
        "dropout": fh.Choice([0.0, 0.05, 0.1]),
    },
)


class Kept:
    """Results by name, in a file: what is there is not done again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def __call__(self, name: str, do: Callable[[], Any]) -> Any:
        if name not in self.found:
            self.found[name] = do()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self.found, indent=1))
            print(name, json.dumps(self.found[name]), flush=True)
        return self.found[name]


def loss(federation: Any, trial: int, split: str) -> float:
    """The mean loss over users."""
    clients = federation.validation_clients if split == "validation" else federation.test_clients
    [scores] = federation.evaluate([trial], clients, split)
    return float(np.average(scores.loss, weights=scores.size))


def trained(federation: Any, trial: int, model: dict, client: dict, seed: int, rounds: int) -> list[float]:
    """Validation losses at the rung and at the end of one training."""
    from fedhpo.protocol.federation import Work

    federation.start(trial, model, seed)
    cohorts = np.random.default_rng([seed, 7])
    found = []
    for number in range(1, rounds + 1):
        cohort = sorted(cohorts.choice(federation.train_clients, COHORT, replace=False).tolist())
        federation.round([Work(trial, cohort, STEPS | client)])
        if number in (RUNG, rounds):
            found.append(loss(federation, trial, "validation"))
    return found


def published(federation: Any, seed: int) -> dict[str, float]:
    """The test loss of each published setting after a full training."""
    federation.expect(ROUNDS)
    found = {}
    for number, (name, (rank, alpha, dropout, rate)) in enumerate(PUBLISHED.items()):
        model = {"rank": rank, "alpha": alpha, "dropout": dropout}
        trained(federation, number, model, {"lr": rate, "lr_schedule": "cosine"}, seed, ROUNDS)
        found[name] = loss(federation, number, "test")
        federation.stop(number)
    return found


def tuned(data: Any, method: str, seed: int) -> dict[str, Any]:
    """The test loss of a method's winner."""
    federation = fh.simulate(fh.LoRA(base), data, workers=0)
    result = fh.tune(
        federation,
        SPACE,
        method,
        objective="loss",
        rounds=ROUNDS,
        total=TOTAL,
        cohort=COHORT,
        seed=seed,
        evaluation=fh.Evaluator(clients=100),
        progress=False,
    )
    return {"test": result.test.value, "config": result.best_config.to_dict(), "rounds": result.cost.rounds}


def peaks(federation: Any, seed: int) -> dict[str, list[float]]:
    """For each peak rate the losses at the rung and at the end, and at the end of a rung-long schedule."""
    found = {}
    for number, rate in enumerate(PEAKS):
        client = {"lr": rate, "lr_schedule": "cosine"}
        full = trained(federation, number, {"rank": 4}, client | {"horizon": ROUNDS}, seed, ROUNDS)
        federation.stop(number)
        short = trained(federation, number + 10, {"rank": 4}, client | {"horizon": RUNG}, seed, RUNG)
        federation.stop(number + 10)
        found[str(rate)] = [full[0], full[1], short[-1]]
    return found


def run(directory: str, seeds: int, path: Path) -> None:
    """Do what is missing, and print the figures."""
    data, kept = posts(directory), Kept(path)
    print(f"{data.clients} users, {len(data.train.indices)} windows to train on")
    with fh.simulate(fh.LoRA(base), data, workers=0) as federation:
        federation.expect(ROUNDS)
        federation.start(99, {"rank": 1}, 0)
        print("base", kept("base", lambda: loss(federation, 99, "test")))
        federation.stop(99)
        for seed in range(seeds):
            kept(f"peaks {seed}", lambda seed=seed: peaks(federation, seed))
            kept(f"published {seed}", lambda seed=seed: published(federation, seed))
            for method in ("random", "auto"):
                kept(f"{method} {seed}", lambda seed=seed, method=method: tuned(data, method, seed))
    report(kept.found)


def report(found: dict[str, Any]) -> None:
    """Means over the seeds that are done, and how often the choice at the rung was right."""
    losses: dict[str, list[float]] = {"no training": [found["base"]]}
    for name, value in found.items():
        kind = name.split()[0]
        if kind == "published":
            for setting, one in value.items():
                losses.setdefault(setting, []).append(one)
        elif kind in ("random", "auto"):
            losses.setdefault(kind, []).append(value["test"])
    print(f"\ntest loss after {ROUNDS} rounds; methods choose by {TOTAL} rounds in all")
    for name, values in losses.items():
        spread = f" ± {statistics.stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
        print(f"  {name:20} {statistics.mean(values):.3f}{spread}  ({len(values)} seeds)")
    grids = [value for name, value in found.items() if name.startswith("peaks")]
    for place, name in ((0, "full-length schedule"), (2, "schedule as long as the rung")):
        right = sum(_best(grid, place) == _best(grid, 1) for grid in grids)
        regret = statistics.mean(grid[_best(grid, place)][1] - grid[_best(grid, 1)][1] for grid in grids)
        print(
            f"  {name}: the choice at round {RUNG} wins at {ROUNDS} in {right} of {len(grids)} seeds, "
            f"regret {regret:.4f}"
        )


def _best(grid: dict[str, list[float]], place: int) -> str:
    return min(grid, key=lambda rate: grid[rate][place])
