"""FedEx without knobs against halving with three finalists and means: accuracy, collapses, fall-backs, bytes.

    python benchmarks/fedex_auto.py [--seeds 20] [--first 3000] [--journal fedex-auto.jsonl] [--docs]

Four federations, on two of which clients have fewer than 10 validation rows; with the same seed all methods
have the same first configs, models and cohorts, and each has the same rounds. The unit is the seed: the mean
of its federations. Wanted: no collapse (10 points or more below the rival), and the lower 95% bound of the
mean difference above -1. It goes on where it was stopped; `--docs` writes docs/fedex-auto.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.methods import Method, Tuner
from fedhpo.methods.fedpop.finale import Finale
from fedhpo.research.statistics import Paired
from fedhpo.search.events import TuningError
from fedhpo_papers.fedpop.many import SCALES
from fedhpo_papers.fedpop.sets import Setting
from fedhpo_papers.shared.planned import Key, Row, run_planned

ROOT = Path(__file__).parents[1]
_FEW: Mapping[str, Any] = {"rows": 16, "components": 48, "shape": {"hidden": 64}}
_LAYERS = SCALES["default"].sets
#: The last two leave clients at most 8 validation rows.
SETS: Mapping[str, Setting] = {
    "femnist": _LAYERS["femnist"],
    "fashion": _LAYERS["fashion"],
    "femnist-few": Setting("femnist", {}, "mlp", 30, 150, **_FEW),
    "mnist-few": Setting("mnist", {"clients": 150}, "mlp", 30, 150, **_FEW),
}
RIVAL, OURS = "sha-3-mean", "fedex-auto"
METHODS: Mapping[str, Callable[[], Method | Tuner]] = {
    RIVAL: lambda: Tuner(Finale(None, exchange=False)),
    OURS: fh.FedEx.auto,
    "fedex": fh.FedEx,
}


def one(federation: Any, setting: Setting, key: Key, classes: int) -> Row:
    """A run: accuracy at the test clients, what finalists committed to, and what it cost."""
    seed, name, method = key
    row: dict[str, Any] = {"seed": seed, "set": name, "method": method, "accuracy": 100 / classes}
    try:
        result = fh.tune(
            federation,
            setting.space(),
            METHODS[method](),
            rounds=setting.rounds,
            total=setting.total,
            cohort=setting.cohort,
            seed=seed,
        )
    except TuningError:
        return {**row, "roles": [], "rounds": 0, "bytes": 0}
    row["accuracy"] = 100 * float(result.facts["best"]["test"]["accuracy"])
    row["roles"] = [commit["role"] for commit in result.facts.get("commits", [])]
    cost = result.cost
    return {**row, "rounds": cost["rounds"], "bytes": cost["bytes_down"] + cost["bytes_up"]}


def run(seeds: range, journal: Path) -> list[Row]:
    """All runs of the plan; what the journal holds is not done again."""
    made: dict[str, Any] = {}

    def done(key: Key) -> Row:
        name = key[1]
        if name not in made:
            data = SETS[name].load()
            made[name] = fh.simulate("mlp", data, server="fedavgm", workers=0), data.classes or 1
        return one(made[name][0], SETS[name], key, made[name][1])

    keys = [(seed, name, method) for seed in seeds for name in SETS for method in METHODS]
    about = {"sets": {name: setting.words for name, setting in SETS.items()}, "first": seeds.start}
    return run_planned(keys, about, journal, done, lambda line: print(line, file=sys.stderr, flush=True))


def summary(rows: list[Row]) -> dict[str, Any]:
    """The differences to the rival, by seed over all federations and by federation."""
    value = {(row["method"], row["set"], row["seed"]): float(row["accuracy"]) for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    found: dict[str, Any] = {}
    for method in (OURS, "fedex"):
        lead = {(s, n): value[method, n, s] - value[RIVAL, n, s] for s in seeds for n in SETS}
        by_seed = Paired(tuple(float(np.mean([lead[s, n] for n in SETS])) for s in seeds))
        low, high = by_seed.interval()
        found[method] = {
            "mean": by_seed.mean,
            "interval": [low, high],
            "collapses": sum(gap <= -10 for gap in lead.values()),
            "pairs": len(lead),
            "by_set": {n: float(np.mean([lead[s, n] for s in seeds])) for n in SETS},
            "bytes": float(
                sum(r["bytes"] for r in rows if r["method"] == method)
                / sum(r["bytes"] for r in rows if r["method"] == RIVAL)
            ),
        }
    roles = [role for row in rows if row["method"] == OURS for role in row["roles"]]
    found["fallbacks"] = sum(role == "own config" for role in roles) / max(1, len(roles))
    found["accuracy"] = {
        m: {n: float(np.mean([value[m, n, s] for s in seeds])) for n in SETS} for m in METHODS
    }
    return {"seeds": [seeds[0], seeds[-1]], **found}


def main() -> int:
    """Run, print, and say whether limits are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=3000, help="the first seed")
    parser.add_argument("--journal", type=Path, default=Path("fedex-auto.jsonl"))
    parser.add_argument("--docs", action="store_true", help="write docs/fedex-auto.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = summary(run(range(options.first, options.first + options.seeds), options.journal))
    print(json.dumps(found, indent=1))
    if options.docs:
        (ROOT / "docs" / "fedex-auto.json").write_text(json.dumps(found, indent=1) + "\n")
    ours = found[OURS]
    return int(ours["collapses"] > 0 or ours["interval"][0] <= -1)


if __name__ == "__main__":
    sys.exit(main())
