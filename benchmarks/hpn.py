"""HPN against one config for all clients, and against FedEx, where clients need different rates.

    python benchmarks/hpn.py [--on toy] [--seeds 20] [--first 0]

"toy" is `fedhpo.testing.ToyFederation`: 40 clients that need rates from 0.01 to 1 (or all 0.1), four trials
of 80 rounds each; the endpoint is the test loss in decades, more being better. "digits" are 50 clients whose
inputs are scaled by 0.3, 1 or 3, so that they need different rates; 9 trials under halving, 30 rounds; the
endpoint is test accuracy in points. HPN is run with what reports say of clients, and with encodings: the
number of rows on the toy, a random projection of each client's mean row on digits.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.methods.fedex.policy import FedEx
from fedhpo.methods.hpn import HPN
from fedhpo.policies import Fixed
from fedhpo.research.statistics import Paired
from fedhpo.schedules import FixedLength, Halving
from fedhpo.testing import ToyFederation

Run = Callable[[Any, int], float]


def policies(encodings: Mapping[int, list[float]], radius: float) -> dict[str, Any]:
    """What is compared."""
    return {
        "one config for all": Fixed(),
        "FedEx.auto()": FedEx.auto(),
        "FedEx.auto(eps=0.5)": FedEx.auto(eps=0.5),
        "HPN": HPN(radius=radius),
        "HPN with encodings": HPN(radius=radius, encodings=encodings),
    }


def on_toy(rates: float) -> tuple[dict[str, Any], Run]:
    """The toy federation."""
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": 0.1})

    def run(policy: Any, seed: int) -> float:
        federation = ToyFederation(clients=40, noise=0.002, seed=seed, rates=rates)
        tuner = fh.Tuner(FixedLength(4), policy=policy)
        budget = {"rounds": 80, "total": 320, "cohort": 10, "seed": seed, "objective": "loss"}
        loss = fh.tune(federation, space, tuner, **budget).facts["best"]["test"]["loss"]
        return -math.log10(max(1e-3, loss))

    return policies({client: [10.0 + client % 7] for client in range(40)}, 0.5), run


def on_digits() -> tuple[dict[str, Any], Run]:
    """Digits, with inputs of different size at different clients."""
    split = {"kind": "inside", "validation": 0.15, "test": 0.35}
    data = fh.load("digits", clients=50, partition={"kind": "dirichlet", "alpha": 1.0}, split=split)
    x = np.array(data.x, dtype=np.float32) / np.float32(np.max(data.x))
    for part in (data.train, data.validation, data.test):
        x[part.indices] *= np.array([0.3, 1.0, 3.0], np.float32)[part.owners % 3][:, None]
    data = replace(data, x=x, mean=None, std=None).validate()
    space = fh.Space(
        client={"lr": fh.Float(1e-3, 3.0, log=True), "batch_size": fh.Ordinal([8, 16, 32])},
        server={"lr": fh.Float(0.1, 10.0, log=True)},
    )
    projection = np.random.default_rng(0).normal(size=(x.shape[1], 3)) / math.sqrt(x.shape[1])
    means = {client: x[data.train.rows(client)].mean(axis=0) for client in range(data.train.clients)}
    encodings = {client: (mean @ projection).tolist() for client, mean in means.items()}
    federation = fh.simulate("mlp", data, workers=0)

    def run(policy: Any, seed: int) -> float:
        tuner = fh.Tuner(Halving(9), policy=policy)
        result = fh.tune(federation, space, tuner, rounds=30, total=90, cohort=10, seed=seed)
        return 100 * float(result.facts["best"]["test"]["accuracy"])

    return policies(encodings, 0.25), run


def main() -> None:
    """Print a table for each federation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--on", choices=["toy", "digits"], default="toy")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    toys = {"rates from 0.01 to 1": 1.0, "the same rate for all": 0.0}
    worlds = {name: on_toy(rates) for name, rates in toys.items()} if options.on == "toy" else {}
    for name, (methods, run) in (worlds or {"scaled digits": on_digits()}).items():
        print(f"{name}, {options.seeds} seeds")
        first: dict[int, float] = {}
        for method, policy in methods.items():
            found = {seed: run(policy, seed) for seed in range(options.first, options.first + options.seeds)}
            first = first or found
            gap = Paired.of(found, first)
            print(f"  {method:20s} {np.mean(list(found.values())):7.3f}  ahead by {gap}", flush=True)


if __name__ == "__main__":
    main()
