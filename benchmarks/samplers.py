"""Regret of the samplers on standard functions, beside Optuna's TPE.

    OMP_NUM_THREADS=1 python benchmarks/samplers.py [--seeds 30] [--evaluations 60] [--json]
        [--samplers tpe optuna-tpe ...] [--functions branin ...]

Each line gives the quartiles, over seeds, of the best value found minus the function's minimum, and
the mean time of a suggestion. `optuna-tpe` is Optuna's TPE as the papers mean it: univariate, without
constant liar, its own start-up of 10 trials; `tpe-startup-10` is ours with the same start-up.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation, Sampler
from fedhpo.samplers import GP, TPE, OptunaSampler, Random
from fedhpo.space import Choice, Float, Int, Ordinal, Space
from fedhpo.space.config import Config

_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(x: Mapping[str, Any]) -> float:
    """Minimum 0.397887."""
    a, b = x["a"], x["b"]
    bow = (b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6) ** 2
    return bow + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10


def hartmann6(x: Mapping[str, Any]) -> float:
    """Minimum -3.32237."""
    point = np.array([x[name] for name in "abcdef"])
    return -float(np.array([1, 1.2, 3, 3.2]) @ np.exp(-(_A * (point - _P) ** 2).sum(axis=1)))


def mixed(x: Mapping[str, Any]) -> float:
    """A training as it might be: learning rate on a log scale, batch size in an ordered list. Minimum 0."""
    lr = math.log10(x["lr"]) + 2 - 0.5 * math.log2(x["batch_size"] / 32) * 0.3  # larger batches, larger steps
    batch = (math.log2(x["batch_size"]) - 5) / 3
    epochs = (x["epochs"] - 4) / 5
    penalty = {"sgd": 0.0, "adam": 0.1, "yogi": 0.2}[x["optimiser"]]
    decay = (math.log10(x["decay"]) + 4) / 3
    return lr**2 + 0.5 * batch**2 + 0.5 * epochs**2 + penalty + 0.2 * decay**2


FUNCTIONS: dict[str, tuple[Space, Callable[[Mapping[str, Any]], float], float]] = {
    "branin": (Space(client={"a": Float(-5, 10), "b": Float(0, 15)}), branin, 0.397887),
    "hartmann6": (Space(client={name: Float(0, 1) for name in "abcdef"}), hartmann6, -3.32237),
    "mixed": (
        Space(
            client={
                "lr": Float(1e-5, 1.0, log=True),
                "decay": Float(1e-6, 1e-1, log=True),
                "batch_size": Ordinal([4, 8, 16, 32, 64, 128, 256]),
                "epochs": Int(1, 10),
                "optimiser": Choice(["yogi", "adam", "sgd"]),
            }
        ),
        mixed,
        0.0,
    ),
}

SAMPLERS: dict[str, Sampler] = {
    "random": Random(),
    "tpe": TPE(),
    "tpe-startup-10": TPE(startup=10),
    "tpe-multivariate": TPE(multivariate=True),
    "optuna-tpe": OptunaSampler("TPESampler", {"multivariate": False, "constant_liar": False}),
    "gp-ei": GP(),
    "gp-noisy-ei": GP(acquisition="noisy-ei"),
}


def regret(sampler: Sampler, function: str, evaluations: int, seed: int) -> tuple[float, float]:
    """How far from the minimum the best of `evaluations` values is, and seconds per suggestion."""
    space, value_of, least = FUNCTIONS[function]
    seen: list[Observation] = []
    asked: list[Config] = []
    spent = 0.0
    for trial in range(evaluations):
        rng = np.random.default_rng([seed, trial])
        began = time.perf_counter()
        config = sampler.suggest(space, seen, asked, rng)
        spent += time.perf_counter() - began
        assert config is not None
        asked.append(config)
        value = value_of(config.client)
        seen.append(Observation(trial, config, Score(value, 0.0, 1, 1, value)))
    return min(o.score.value for o in seen) - least, spent / evaluations


def main() -> None:
    """Print one line per function and sampler."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=list(FUNCTIONS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="optuna")
    rows = []
    for function in options.functions:
        for name in options.samplers:
            found = [
                regret(SAMPLERS[name], function, options.evaluations, seed) for seed in range(options.seeds)
            ]
            quartiles = np.percentile([r for r, _ in found], [25, 50, 75]).tolist()
            rows.append(
                {
                    "function": function,
                    "sampler": name,
                    "quartiles": quartiles,
                    "milliseconds": 1000 * float(np.mean([s for _, s in found])),
                }
            )
            if not options.json:
                low, median, high = quartiles
                print(
                    f"{function:10} {name:17} {low:8.4f} {median:8.4f} {high:8.4f} "
                    f"{rows[-1]['milliseconds']:7.2f} ms",
                    flush=True,
                )
    if options.json:
        print(json.dumps({"seeds": options.seeds, "evaluations": options.evaluations, "rows": rows}))


if __name__ == "__main__":
    main()
