"""One of eight Flower clients lies about scores: it does not move the choice.

    python benchmarks/truths/07_one_liar.py

Seven clients score one config 5 points better than the other. The liar says the opposite, as far apart as it
can. Exits 1 where the worse config is chosen, or the reported score is not the mean.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client

LIAR = 3


def train(arrays: Any, task: Any, context: Any) -> Trained:
    """The model is the config itself."""
    return Trained({"w": np.full_like(arrays["w"], task.config["lr"])}, train_size=10)


def evaluate(arrays: Any, task: Any, context: Any) -> Scored:
    """0.70 for the bad config, 0.75 for the good one; the liar's scores are 1 and 0."""
    good, me = bool(arrays["w"][0] > 0.3), context.node_config["partition-id"]
    accuracy = float(not good) if me == LIAR else (0.75 if good else 0.70)
    return Scored(10, 1 - accuracy, accuracy)


def main() -> int:
    """One study by random search, one by halving; 0 where both choose the good config."""
    app = client(
        ClientApp(),
        train=train,
        evaluate=evaluate,
        sizes=lambda context: {"train": 10, "validation": 10},
    )
    space = fh.Space(client={"lr": fh.Choice([0.1, 0.5], default=0.1)})
    wrong = []
    for method in (fh.GridSearch(), fh.SHA(trials=2, rate=2)):
        model = Arrays(lambda seed: {"w": np.zeros(1, np.float32)})
        with FlowerFederation(InProcessGrid(app, 8), model, clients=8) as federation:
            result = fh.tune(federation, space, method, rounds=2, total=4, cohort=8, seed=0)
        chosen, score = result.best_config.client["lr"], result.best_score
        fine = chosen == 0.5 and abs(score - 0.75 * 7 / 8) < 1e-9
        wrong += [] if fine else [method.name]
        print(f"{method.name}: chose lr = {chosen} (0.5 is better at seven of eight), score {score:.4f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
