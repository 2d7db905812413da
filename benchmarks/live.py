"""The default method away from tables: `auto`, `sha` and `random` where one validation client makes a score.

    FEDHPO_DATA=/path/to/data python benchmarks/live.py [--data digits femnist] [--seeds 20] [--runs DIR]

Every seed has its own partition, initial weights and cohorts, and is the same for all methods. What is
compared is the accuracy of the recommended model at the test clients, which no method sees. Runs that are
done are kept in a journal: killed and called again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.journal import Journal
from fedhpo.study import Study

METHODS = ("auto", "sha", "random")
_SPACE = {
    "client": {
        "lr": {"low": 1e-3, "high": 1.0, "log": True},
        "momentum": {"low": 0.0, "high": 0.9},
        "batch_size": {"choices": [8, 16, 32]},
    },
    "server": {
        "lr": {"low": 1e-4, "high": 1e-1, "log": True},
        "beta1": {"low": 0.0, "high": 0.9},
        "beta2": {"low": 0.0, "high": 0.999},
    },
}
STUDIES: Mapping[str, dict[str, Any]] = {
    "digits": {
        "data": {
            "name": "digits",
            "clients": 90,
            "partition": {"kind": "dirichlet", "alpha": 0.3},
            "split": {"kind": "pools", "validation": 20, "test": 20},
        },
        "model": {"name": "mlp", "hidden": 32},
    },
    "femnist": {
        "data": {
            "name": "femnist",
            "shrink": 2,
            "split": {"kind": "pools", "validation": 25, "test": 25},
        },
        "model": {"name": "mlp", "hidden": 32},
    },
}


def tuned(data: str, method: str, seed: int, place: Path) -> dict[str, Any]:
    """The test accuracy of what a method recommends, and what it spent."""
    study = Study.from_dict(
        {
            **STUDIES[data],
            "name": f"live-{data}",
            "seed": seed,
            "server": {"optimiser": "fedadam"},
            "space": _SPACE,
            "objective": {"metric": "error"},
            "budget": {"rounds": 27, "total": 216, "cohort": 5},
            "evaluation": {"clients": 1},
            "method": {"name": method},
        }
    )
    shutil.rmtree(place, ignore_errors=True)
    result = study.tune(place, workers=0)
    shutil.rmtree(place)
    accuracy = float(result.facts["best"]["test"]["accuracy"])
    return {
        "data": data,
        "method": method,
        "seed": seed,
        "accuracy": round(accuracy, 5),
        **_cost(result.cost),
    }


def _cost(cost: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(cost[name]) for name in ("rounds", "evaluations")}


def told(rows: list[dict[str, Any]], data: str) -> list[str]:
    """A line for each method: its mean, and by how much `auto` is ahead of it, seed by seed."""
    found = {
        m: {r["seed"]: r["accuracy"] for r in rows if (r["data"], r["method"]) == (data, m)} for m in METHODS
    }
    lines = []
    for method, own in found.items():
        seeds = sorted(set.intersection(*(set(one) for one in found.values())))
        if len(seeds) < 2:
            return [f"{data}: fewer than two seeds are done"]
        apart = 100 * np.array([found["auto"][seed] - own[seed] for seed in seeds])
        error = float(apart.std(ddof=1)) / math.sqrt(len(seeds))
        mean = 100 * float(np.mean([own[seed] for seed in seeds]))
        ahead = "" if method == "auto" else f", auto ahead by {apart.mean():+.2f} ± {error:.2f}"
        lines.append(f"{data}, {len(seeds)} seeds: {method:7} {mean:.2f}%{ahead}")
    return lines


def main() -> None:
    """Run what is missing, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--runs", type=Path, default=Path("runs/live"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    journal = Journal(options.runs / "live.jsonl", {"studies": STUDIES, "space": _SPACE})
    known = {(row["data"], row["method"], row["seed"]) for row in journal}
    for seed in range(options.seeds):
        for data in options.data:
            for method in METHODS:
                if (data, method, seed) not in known:
                    journal.add([tuned(data, method, seed, options.runs / "under-way")])
    rows = list(journal)
    if options.json:
        print(json.dumps(rows))
        return
    for data in options.data:
        print("\n".join(told(rows, data)))


if __name__ == "__main__":
    main()
