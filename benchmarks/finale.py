"""Which model of a training to keep: test accuracy of `auto` with its last model, with means, and cooled.

    python benchmarks/finale.py --seeds 40 --done finale.jsonl     # goes on where it was stopped
    python benchmarks/finale.py --show finale.jsonl

All ways have the same bytes: where an average costs one evaluation more, the others get as many rounds more
as that is worth. Ways of one seed have the same clients, and those of `auto` the same trials.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.methods.fedpop.finale import Finale
from fedhpo.methods.robust import RobustHalving
from fedhpo.policies import Cooling
from fedhpo.samplers import BOHB

ROUNDS, TOTAL, COHORT = 60, 480, 10
SPACE = {
    "client": {
        "lr": {"low": 1e-3, "high": 1.0, "log": True},
        "momentum": {"low": 0.0, "high": 0.9},
        "batch_size": {"choices": [8, 16, 32]},
        "epochs": {"choices": [1, 2, 4]},
    },
    "server": {"lr": {"low": 0.3, "high": 3.0, "log": True}},
}
#: By name the data of a deal, the model, and how many clients make a score.
DEALS: dict[str, tuple[Callable[[int], Any], str, int | None]] = {
    "digits, alpha 0.3": (
        lambda seed: fh.load("digits", clients=50, partition={"kind": "dirichlet", "alpha": 0.3}, seed=seed),
        "mlp",
        None,
    ),
    "digits, alpha 0.3, 5 clients": (
        lambda seed: fh.load("digits", clients=50, partition={"kind": "dirichlet", "alpha": 0.3}, seed=seed),
        "mlp",
        5,
    ),
    "synthetic": (lambda seed: fh.load("synthetic", clients=50, samples=60, seed=seed), "linear", None),
    "synthetic, 5 clients": (
        lambda seed: fh.load("synthetic", clients=50, samples=60, seed=seed),
        "linear",
        5,
    ),
}
#: By name the method, what is kept, and whether the way takes one evaluation of two models more.
WAYS: dict[str, tuple[Any, str, bool]] = {
    "last": (fh.Auto(), "last", False),
    "mean": (fh.Auto(), "mean", True),
    "exponential": (fh.Auto(), "exponential", True),
    "cooled": (fh.Tuner(RobustHalving(), BOHB(), Cooling()), "last", False),
    "fedpop-auto": ("fedpop-auto", "last", True),
    "fedpop-auto, means only": (fh.Tuner(Finale(exchange=False)), "last", True),
}


def rows(seeds: int, first: int, ways: list[str]) -> Iterator[tuple[str, int, str]]:
    """All cells, all ways of a seed one after the other."""
    return ((deal, seed, way) for seed in range(first, first + seeds) for deal in DEALS for way in ways)


def played(deal: str, seed: int, way: str) -> dict[str, Any]:
    """Test accuracy and bytes of one run."""
    data, model, clients = DEALS[deal]
    method, keep, more = WAYS[way]
    asked = 50 if clients is None else clients
    # A round moves 2 x COHORT models, an evaluation one for each client and model.
    total = TOTAL + (0 if more else math.ceil(2 * asked / (2 * COHORT)))
    with fh.simulate(model, data(seed), workers=0) as federation:
        found = fh.tune(
            federation,
            fh.Space.from_dict(SPACE),
            method,
            rounds=ROUNDS,
            total=total,
            cohort=COHORT,
            seed=seed,
            evaluation=fh.Evaluator(clients=clients),
            keep=keep,
        )
    cost = found.cost
    return {
        "deal": deal,
        "seed": seed,
        "way": way,
        "test": found.facts["best"]["test"]["accuracy"],
        "bytes": cost["bytes_down"] + cost["bytes_up"],
        "evaluations": cost["evaluations"],
        "kept": (found.facts.get("keep") or {}).get("kept", "last"),
    }


def show(found: list[dict[str, Any]]) -> None:
    """Differences from the last model, in points, paired by seed; ± is a standard error."""
    by_cell: dict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
    for one in found:
        by_cell[one["deal"], one["way"]][one["seed"]] = one
    pairs = [(way, "last") for way in WAYS if way != "last"]
    pairs.append(("fedpop-auto", "fedpop-auto, means only"))
    over: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for deal in DEALS:
        print(deal)
        for way, than in pairs:
            ours, theirs = by_cell[deal, way], by_cell[deal, than]
            seeds = sorted(ours.keys() & theirs.keys())
            if len(seeds) < 2:
                continue
            gains = np.array([100 * (ours[s]["test"] - theirs[s]["test"]) for s in seeds])
            moved = np.mean([ours[s]["bytes"] / theirs[s]["bytes"] for s in seeds])
            for seed, gain in zip(seeds, gains, strict=True):
                over[way, than][seed].append(float(gain))
            print(
                f"  {way:<24} - {than:<24} {gains.mean():+6.2f} ± {gains.std(ddof=1) / len(gains) ** 0.5:.2f}"
                f"  median {np.median(gains):+6.2f}  seeds {len(seeds)}  bytes x {moved:.3f}"
            )
    print("all deals, seeds as units")
    for (way, than), by_seed in over.items():
        means = np.array([np.mean(values) for values in by_seed.values()])
        print(f"  {way:<24} - {than:<24} {means.mean():+6.2f} ± {means.std(ddof=1) / len(means) ** 0.5:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument(
        "--done", type=Path, default=Path("finale.jsonl"), help="a file that keeps what is done"
    )
    parser.add_argument("--show", type=Path, help="only show what a file holds")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    options = parser.parse_args()
    place = options.show or options.done
    found = [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []
    if options.show is None:
        warnings.simplefilter("ignore")
        known = {(one["deal"], one["seed"], one["way"]) for one in found}
        with place.open("a") as file:
            for cell in rows(options.seeds, options.first, options.ways):
                if cell not in known:
                    found.append(played(*cell))
                    file.write(json.dumps(found[-1]) + "\n")
                    file.flush()
    show(found)


if __name__ == "__main__":
    sys.exit(main())
