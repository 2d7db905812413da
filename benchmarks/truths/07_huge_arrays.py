"""Two of eight Flower clients answer finite arrays of 1e38: the study ends well all the same.

    python benchmarks/truths/07_huge_arrays.py

Cohorts are drawn (4 of 8), so that hostile clients are now and then half of one. Exits 1 where the study
ends without a finite score, or with a model that is of no use.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client

HOSTILE, HUGE, SIZE = (1, 4), 1e38, 20
TARGET = np.linspace(-1, 1, SIZE).astype(np.float32)


def train(arrays: Any, task: Any, context: Any) -> Trained:
    """A step towards the target; of hostile clients 1e38."""
    weights = arrays["w"]
    if context.node_config["partition-id"] in HOSTILE:
        return Trained({"w": np.full_like(weights, HUGE)}, train_size=10)
    return Trained({"w": weights + np.float32(task.config["lr"]) * (TARGET - weights)}, train_size=10)


def evaluate(arrays: Any, task: Any, context: Any) -> Scored:
    """How near the target is."""
    loss = float(np.mean((arrays["w"].astype(np.float64) - TARGET) ** 2))
    return Scored(10, min(loss, 1e9), 1 / (1 + loss))


def main() -> int:
    """One study; 0 where its model is of use."""
    app = client(
        ClientApp(),
        train=train,
        evaluate=evaluate,
        sizes=lambda context: {"train": 10, "validation": 10},
    )
    model = Arrays(lambda seed: {"w": np.zeros(SIZE, np.float32)})
    space = fh.Space(client={"lr": fh.Float(0.05, 0.9, log=True)})
    with FlowerFederation(InProcessGrid(app, 8), model, clients=8) as federation:
        try:
            result = fh.tune(
                federation, space, fh.RandomSearch(trials=3), rounds=30, total=90, cohort=4, seed=0
            )
        except fh.FedhpoError as error:
            print(f"two of eight clients end the study: {error}")
            return 1
    scores = [trial["score"] or 0.0 for trial in result.facts["trials"]]
    print(f"two of eight clients send 1e38: scores of the trials {[round(s, 4) for s in scores]}")
    return 0 if min(scores) > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
