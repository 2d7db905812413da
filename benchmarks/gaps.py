"""What gap scores and pooled choices are worth: regret of `robust` by private choices with and without them.

    python benchmarks/gaps.py [--seeds 100] [--tables cifar10 ...] [--settings 1:100 0.1:10 ...] [--log FILE]

A setting is CLIENTS:EPSILON, with `all` for all clients. Prints mean regret in points of error with the
standard error of the seeds, and the geometric mean over tables of the ratio to whole scores with one look a
choice. What was played is kept in the log and not played again. It needs `papers/` (the bench's samples).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo_papers.bench.cells import load, priced
from fedhpo_papers.bench.entries import Entry, Task
from fedhpo_papers.bench.sample import sample_of
from fedhpo_papers.bench.settings import Setting

_FLIP: Mapping[str, Any] = {"mechanism": "permute-and-flip", "held_out": 0.0}
#: A window of 0.999 clips hardly anything, and 1 means: as before 0.3.0, without pools.
VARIANTS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "neither": ({"name": "robust"}, _FLIP | {"gap": 1.0}),
    "gaps": ({"name": "robust", "again": False}, _FLIP),
    "pools": ({"name": "robust"}, _FLIP | {"gap": 0.999}),
    "both": ({"name": "robust"}, _FLIP),
    "both, two rungs": ({"name": "robust", "rungs": 2}, _FLIP),
    "both, one rung": ({"name": "robust", "rungs": 1}, _FLIP),
    "auto": ({}, {}),
}
#: Added to regrets before ratios are taken: below it a difference is none.
_LEAST = 0.1


def regret(table: str, setting: Setting, variant: str, seed: int) -> float:
    """What one search comes to."""
    method, privacy = VARIANTS[variant]
    sample = sample_of(load(table), seed)
    found, _ = priced(Entry(variant, "ours", variant, method, privacy), Task(sample.table, setting, (), seed))
    return sample.regret(sample.table.configs.index(found.best), found.round)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--tables", nargs="+", default=["cifar10", "mnist", "fashion_mnist"])
    parser.add_argument("--settings", nargs="+", default=["0.1:1", "0.1:10", "1:100"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--log", type=Path, default=Path("gaps.jsonl"))
    options = parser.parse_args()
    lines = options.log.read_text().splitlines() if options.log.exists() else []
    known = {tuple(one[:4]): one[4] for one in map(json.loads, lines)}
    for given in options.settings:
        clients, epsilon = given.split(":")
        asked = None if clients == "all" else float(clients) if "." in clients else int(clients)
        setting = Setting(asked, float(epsilon))
        print(f"\n| {setting.name} | " + " | ".join(options.tables) + " | ratio |")
        print("| --- " * (len(options.tables) + 2) + "|")
        first = None
        for variant in options.variants:
            columns = []
            for table in options.tables:
                for seed in range(options.seeds):
                    key = (setting.name, variant, table, seed)
                    if key not in known:
                        known[key] = regret(table, setting, variant, seed)
                        with options.log.open("a") as file:
                            file.write(json.dumps([*key, known[key]]) + "\n")
                columns.append([known[setting.name, variant, table, seed] for seed in range(options.seeds)])
            found = np.array(columns)
            means, errors = found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(options.seeds)
            first = means if first is None else first
            ratio = float(np.exp(np.log((means + _LEAST) / (first + _LEAST)).mean()))
            cells = " | ".join(f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True))
            print(f"| {variant} | {cells} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
