"""Regret of the samplers on six functions, with and without noise, beside Optuna's.

    OMP_NUM_THREADS=1 python benchmarks/samplers.py [--seeds 20] [--evaluations 60] [--noise 0 0.3 1] [--json]
        [--samplers tpe optuna-tpe ...] [--functions branin ...]

Noise is normal, its standard deviation a multiple of the function's own over its space; nobody is told its
size. Each line gives the quartiles, over seeds, of the noiseless value of the recommended config minus the
function's minimum. A sampler that recommends does so by its model, the others by the best value seen.
`optuna-tpe` is Optuna's default TPE, `optuna-tpe-univariate` its univariate one, `optuna-gp` its GPSampler,
told under noise that values are not exact.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation, Recommender, Sampler
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


def log_ridge(x: Mapping[str, Any]) -> float:
    """Two learning rates whose product matters, on log scales. Minimum 0."""
    server, client = math.log10(x["server"]), math.log10(x["client"])
    return (server + client + 3) ** 2 + 0.1 * (server + 1) ** 2


def rosenbrock(x: Mapping[str, Any]) -> float:
    """In three dimensions, its logarithm, so that the valley counts. Minimum 0."""
    a, b, c = x["a"], x["b"], x["c"]
    return math.log1p(100 * (b - a * a) ** 2 + (1 - a) ** 2 + 100 * (c - b * b) ** 2 + (1 - b) ** 2)


def ackley(x: Mapping[str, Any]) -> float:
    """In four dimensions. Minimum 0."""
    point = np.array([x[name] for name in "abcd"])
    hole = -20 * math.exp(-0.2 * math.sqrt(float((point**2).mean())))
    return hole - math.exp(float(np.cos(2 * math.pi * point).mean())) + 20 + math.e


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
    "log_ridge": (
        Space(client={"server": Float(1e-3, 10.0, log=True), "client": Float(1e-4, 1.0, log=True)}),
        log_ridge,
        0.0,
    ),
    "rosenbrock": (Space(client={name: Float(-2, 2) for name in "abc"}), rosenbrock, 0.0),
    "ackley": (Space(client={name: Float(-4, 6) for name in "abcd"}), ackley, 0.0),
}

SAMPLERS: dict[str, Callable[[float], Sampler]] = {
    "random": lambda noise: Random(),
    "tpe": lambda noise: TPE(),
    "tpe-univariate": lambda noise: TPE(multivariate=False),
    "gp": lambda noise: GP(),
    "gp-noisy-ei": lambda noise: GP(acquisition="noisy-ei"),
    "optuna-tpe": lambda noise: OptunaSampler("TPESampler"),
    "optuna-tpe-univariate": lambda noise: OptunaSampler("TPESampler", {"multivariate": False}),
    "optuna-gp": lambda noise: OptunaSampler("GPSampler", {"deterministic_objective": noise == 0}),
}


def spread(function: str) -> float:
    """The standard deviation of a function over its space."""
    space, value_of, _ = FUNCTIONS[function]
    rng = np.random.default_rng(0)
    return float(np.std([value_of(space.sample(rng).client) for _ in range(2000)]))


def regret(
    sampler: Sampler, function: str, evaluations: int, seed: int, noise: float = 0.0
) -> tuple[float, float]:
    """How far from the minimum the recommended config is, and seconds per suggestion."""
    space, value_of, least = FUNCTIONS[function]
    seen: list[Observation] = []
    asked: list[Config] = []
    spent = 0.0
    size = noise * spread(function) if noise else 0.0
    luck = np.random.default_rng([seed, 1_000_000])
    for trial in range(evaluations):
        rng = np.random.default_rng([seed, trial])
        began = time.perf_counter()
        config = sampler.suggest(space, seen, asked, rng)
        spent += time.perf_counter() - began
        assert config is not None
        asked.append(config)
        value = value_of(config.client) + size * luck.normal()
        error = math.nan if noise else 0.0
        seen.append(Observation(trial, config, Score(value, error, 1, 1, value)))
    best = min(seen, key=lambda one: one.score.value).trial
    if isinstance(sampler, Recommender):
        found = sampler.recommend(space, seen, range(evaluations), np.random.default_rng([seed, 2_000_000]))
        best = best if found is None else found
    return value_of(seen[best].config.client) - least, spent / evaluations


def main() -> None:
    """Print one line per function and sampler."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.3, 1.0])
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=list(FUNCTIONS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="optuna")
    rows = []
    for function, noise, name in product(options.functions, options.noise, options.samplers):
        sampler = SAMPLERS[name](noise)
        found = [regret(sampler, function, options.evaluations, seed, noise) for seed in range(options.seeds)]
        quartiles = np.percentile([r for r, _ in found], [25, 50, 75]).tolist()
        milliseconds = 1000 * float(np.mean([s for _, s in found]))
        rows.append(
            {
                "function": function,
                "noise": noise,
                "sampler": name,
                "quartiles": quartiles,
                "milliseconds": milliseconds,
            }
        )
        if not options.json:
            low, median, high = quartiles
            print(
                f"{function:10} {noise:4g} {name:24} {low:8.4f} {median:8.4f} {high:8.4f} "
                f"{milliseconds:7.2f} ms",
                flush=True,
            )
    if options.json:
        print(json.dumps({"seeds": options.seeds, "evaluations": options.evaluations, "rows": rows}))


if __name__ == "__main__":
    main()
