"""Two objectives: which way to sample them, and what methods find on digits beside random search.

    OMP_NUM_THREADS=1 python benchmarks/objectives.py samplers [--seeds 20] [--evaluations 30]
    OMP_NUM_THREADS=1 python benchmarks/objectives.py digits [--seeds 10] [--log digits.jsonl]

`samplers` compares random scalarisation (`fedhpo.search.scalarised`) with the expected improvement of the
hypervolume (EHVI, `fedhpo.surrogates.hypervolume`) and with ranks of non-dominated sorting, on three pairs of
functions. `digits` tunes
error against the bytes that clients send, at equal rounds. Both print the median hypervolume over seeds, as a
share of the best that is known, and how many seeds are above random search. A log keeps what was done.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.pareto import hypervolume, pareto_order
from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation
from fedhpo.samplers import GP, TPE, Random
from fedhpo.search.scalarised import scalarised
from fedhpo.space import Float, Int, Space
from fedhpo.space.config import Config

Pair = Callable[[Mapping[str, Any]], tuple[float, float]]


def zdt1(x: Mapping[str, Any]) -> tuple[float, float]:
    """A convex front, reached where b and c are 0 (Zitzler et al., 2000)."""
    g = 1 + 4.5 * (x["b"] + x["c"])
    return x["a"], g * (1 - math.sqrt(x["a"] / g))


def sphere(x: Mapping[str, Any]) -> tuple[float, float]:
    """A concave front: a quarter of a circle, reached where b and c are one half (DTLZ2)."""
    g = 1 + (x["b"] - 0.5) ** 2 + (x["c"] - 0.5) ** 2
    return g * math.cos(x["a"] * math.pi / 2), g * math.sin(x["a"] * math.pi / 2)


def training(x: Mapping[str, Any]) -> tuple[float, float]:
    """As a training might be: wider models err less, cost more, and want smaller steps."""
    width = math.log2(x["width"])
    off = math.log10(x["lr"]) + 1 + 0.1 * (width - 5)
    error = 0.05 + 0.6 * 2 ** (-0.6 * (width - 2)) + 0.25 * min(off**2, 3) + 0.02 * abs(x["epochs"] - 3)
    return min(error, 0.9), x["width"] / 256


FUNCTIONS: dict[str, tuple[Space, Pair, tuple[float, float]]] = {
    "zdt1": (Space(client={name: Float(0, 1) for name in "abc"}), zdt1, (1.0, 5.0)),
    "sphere": (Space(client={name: Float(0, 1) for name in "abc"}), sphere, (1.5, 1.5)),
    "training": (
        Space(
            client={"lr": Float(1e-3, 1.0, log=True), "epochs": Int(1, 5)},
            model={"width": Int(4, 256, log=True)},
        ),
        training,
        (1.0, 1.0),
    ),
}


def ranked(seen: Sequence[Observation]) -> list[Observation]:
    """Observations whose one value is their place in non-dominated sorting."""
    if not seen:
        return []
    places = {place: rank for rank, place in enumerate(pareto_order(np.array([s.score.point for s in seen])))}
    return [
        replace(one, score=replace(one.score, rank_value=float(places[i]), value=float(places[i])))
        for i, one in enumerate(seen)
    ]


def suggest(
    how: str, space: Space, seen: list[Observation], asked: list[Config], rng: np.random.Generator
) -> Config:
    """The next config by one of the ways that are compared."""
    told = {"sorted": ranked, "EHVI": list}.get(how.partition(", ")[2], lambda s: scalarised(s, rng))(seen)
    sampler = {"random": Random(), "gp": GP(), "tpe": TPE()}[how.partition(",")[0]]
    found = sampler.suggest(space, told, asked, rng)
    assert found is not None
    return found


WAYS = ("random", "gp, scalarised", "gp, EHVI", "gp, sorted", "tpe, scalarised", "tpe, sorted")


def searched(how: str, function: str, evaluations: int, seed: int) -> float:
    """The hypervolume of one search."""
    space, pair, reference = FUNCTIONS[function]
    seen: list[Observation] = []
    asked: list[Config] = []
    for trial in range(evaluations):
        config = suggest(how, space, seen, asked, np.random.default_rng([seed, trial]))
        asked.append(config)
        first, second = pair({**config.client, **config.model})
        other = Score(second, 0.0, 1, 1, second)
        seen.append(Observation(trial, config, Score(first, 0.0, 1, 1, first, others=(other,))))
    return hypervolume(np.array([one.score.point for one in seen]), np.array(reference))


def compare_samplers(seeds: int, evaluations: int) -> None:
    """One line for each pair of functions and way."""
    for function in FUNCTIONS:
        found = {how: [searched(how, function, evaluations, seed) for seed in range(seeds)] for how in WAYS}
        best = max(max(values) for values in found.values())
        for how, values in found.items():
            low, median, high = np.percentile(np.array(values) / best, [25, 50, 75])
            ahead = sum(ours > theirs for ours, theirs in zip(values, found["random"], strict=True))
            print(f"{function:9} {how:16} {low:.4f} {median:.4f} {high:.4f}  {ahead} of {seeds}", flush=True)


#: Error, and bytes up as a share of those of the widest model.
_WIDEST = 128


def digits_methods() -> dict[str, Any]:
    """What is compared on digits."""
    import fedhpo as fh

    return {
        "random": fh.RandomSearch(),
        "sha": fh.SHA(),
        "hyperband": fh.Hyperband(),
        "bohb": fh.BOHB(),
        "tpe": fh.TPE(),
        "gp": fh.GP(),
    }


def tune_digits(federation: Any, method: Any, seed: int, rounds: int, total: int) -> float:
    """The hypervolume of the Pareto set that a method finds."""
    import fedhpo as fh

    space = fh.Space(
        client={
            "lr": Float(1e-3, 1.0, log=True),
            "batch_size": fh.Ordinal([8, 16, 32, 64]),
            "epochs": Int(1, 4),
        },
        server={"lr": 1.0},
        model={"hidden": Int(4, _WIDEST, log=True)},
    )
    result = fh.tune(
        federation,
        space,
        method,
        rounds=rounds,
        total=total,
        cohort=10,
        seed=seed,
        objectives=["error", "bytes_up"],
    )
    widest = 10 * rounds * 4 * (64 * _WIDEST + _WIDEST + 10 * _WIDEST + 10)
    points = np.array([[row["error"], row["bytes_up"] / widest] for row in result.pareto])
    return hypervolume(points, np.ones(2))


def compare_on_digits(seeds: int, log: Path | None, rounds: int, total: int) -> None:
    """One line for each method; what a log holds is not done again."""
    import fedhpo as fh

    done = [json.loads(line) for line in log.read_text().splitlines()] if log and log.exists() else []
    known = {(one["method"], one["seed"]): one["hypervolume"] for one in done}
    federation = fh.simulate(
        "mlp", fh.load("digits", clients=50, partition={"kind": "dirichlet", "alpha": 0.5})
    )
    methods = digits_methods()
    with federation:
        for seed in range(seeds):
            for name, method in methods.items():
                if (name, seed) in known:
                    continue
                known[name, seed] = tune_digits(federation, method, seed, rounds, total)
                if log:
                    with log.open("a") as file:
                        line = {"method": name, "seed": seed, "hypervolume": known[name, seed]}
                        file.write(json.dumps(line) + "\n")
    for name in methods:
        values = [known[name, seed] for seed in range(seeds)]
        low, median, high = np.percentile(values, [25, 50, 75])
        ahead = sum(known[name, seed] > known["random", seed] for seed in range(seeds))
        print(f"{name:10} {low:.4f} {median:.4f} {high:.4f}  {ahead} of {seeds} above random", flush=True)


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["samplers", "digits"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--evaluations", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--total", type=int, default=300)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    if options.part == "samplers":
        compare_samplers(options.seeds or 20, options.evaluations)
    else:
        compare_on_digits(options.seeds or 10, options.log, options.rounds, options.total)


if __name__ == "__main__":
    main()
