"""Schedules as long as the training, or as the rung: which ranks configs better, by method.

    python benchmarks/horizons.py [--seeds 10] [--kept build/horizons.json]

A Flower app of softmax regression on digits, whose clients read `num-server-rounds` for a cosine, is tuned
in process at equal totals with `horizon = "full"` and "rung". A winner has trained for the full length on the
full schedule either way; what counts is how good the choice was.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ROUNDS, TOTAL, CLIENTS = 27, 162, 12
METHODS = ("sha", "hyperband", "robust")

APP = """
import math

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits

X, Y = load_digits(return_X_y=True)
X, Y = np.hstack([X / 16, np.ones((len(X), 1))]), np.eye(10)[Y]
ORDER = np.random.default_rng(0).permutation(len(X))


def rows(context, held):
    place, count = context.node_config["partition-id"], context.node_config["num-partitions"]
    own = ORDER[place::count]
    half = len(own) // 2
    return (X[own[half:]], Y[own[half:]]) if held else (X[own[:half]], Y[own[:half]])


def shares(x, w):
    z = x @ w
    z = np.exp(z - z.max(1, keepdims=True))
    return z / z.sum(1, keepdims=True)


client = ClientApp()


@client.train()
def train(msg, context):
    config = context.run_config
    w = msg.content["arrays"]["w"].numpy().copy()
    part = (msg.content["config"]["server-round"] - 1) / config["num-server-rounds"]
    rate = config["learning-rate"] * 0.5 * (1 + math.cos(math.pi * part))
    x, y = rows(context, False)
    momentum = np.zeros_like(w)
    for _ in range(config["steps"]):
        chosen = np.random.choice(len(x), config["batch-size"])
        slope = x[chosen].T @ (shares(x[chosen], w) - y[chosen]) / len(chosen)
        momentum = config["momentum"] * momentum + slope
        w -= rate * momentum
    told = MetricRecord({"num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord({"w": Array(w)}), "metrics": told}), reply_to=msg)


@client.evaluate()
def evaluate(msg, context):
    x, y = rows(context, True)
    found = shares(x, msg.content["arrays"]["w"].numpy())
    loss = float(-np.log((found * y).sum(1) + 1e-12).mean())
    told = MetricRecord({"eval_loss": loss, "num-examples": len(x)})
    return Message(RecordDict({"metrics": told}), reply_to=msg)


server = ServerApp()


@server.main()
def main(grid, context):
    first = ArrayRecord({"w": Array(np.zeros((65, 10)))})
    FedAvg().start(grid, first, num_rounds=context.run_config["num-server-rounds"])
"""
PROJECT = """
[project]
name = "cosine"
version = "1"
[tool.flwr.app]
publisher = "fedhpo"
[tool.flwr.app.components]
serverapp = "cosine_app:server"
clientapp = "cosine_app:client"
[tool.flwr.app.config]
num-server-rounds = 27
learning-rate = 0.1
momentum = 0.0
batch-size = 8
steps = 10
"""


def study(app: Path, method: str, horizon: str, seed: int) -> dict[str, Any]:
    """The study's tables."""
    return {
        "app": {"path": str(app), "clients": CLIENTS},
        "seed": seed,
        "space": {
            "client": {
                "learning-rate": {"low": 1e-3, "high": 30.0, "log": True},
                "momentum": {"low": 0.0, "high": 0.95},
                "batch-size": {"choices": [2, 8, 32]},
            }
        },
        "objective": {"metric": "eval_loss", "direction": "minimize"},
        "method": {"name": method},
        "budget": {"rounds": ROUNDS, "total": TOTAL, "cohort": 4, "horizon": horizon},
    }


def main() -> None:
    """Do what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "horizons.json")
    options = parser.parse_args()
    from fedhpo.study import Study

    begun = time.time()
    kept: dict[str, float] = json.loads(options.kept.read_text()) if options.kept.is_file() else {}
    options.kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        app = Path(folder)
        (app / "cosine_app.py").write_text(APP)
        (app / "pyproject.toml").write_text(PROJECT)
        for seed in range(options.seeds):
            for method in METHODS:
                for horizon in ("full", "rung"):
                    key = f"{method} {horizon} {seed}"
                    if key not in kept:
                        result = Study.from_dict(study(app, method, horizon, seed)).tune()
                        assert result.cost["rounds"] <= TOTAL
                        kept[key] = result.best_score
                        options.kept.write_text(json.dumps(kept, indent=1))
                        print(key, kept[key], f"{time.time() - begun:.0f} s", flush=True)
    print(
        "| method | loss, full | loss, rung | rung minus full, paired | rung better |\n" + "| --- " * 5 + "|"
    )
    for method in METHODS:
        pairs = [
            (kept[f"{method} full {seed}"], kept[f"{method} rung {seed}"]) for seed in range(options.seeds)
        ]
        more = [rung - full for full, rung in pairs]
        error = statistics.stdev(more) / len(more) ** 0.5 if len(more) > 1 else float("nan")
        full, rung = (statistics.mean(column) for column in zip(*pairs, strict=True))
        better = sum(one < 0 for one in more)
        print(
            f"| {method} | {full:.4f} | {rung:.4f} | {statistics.mean(more):+.4f} ± {error:.4f} | "
            f"{better} of {len(more)} |"
        )
    print(f"{(time.time() - begun) / 60:.1f} minutes")


if __name__ == "__main__":
    sys.exit(main())
