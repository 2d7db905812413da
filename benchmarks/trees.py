"""Ways to train boosted trees federated, at the same total of trees: which is best where.

    OMP_NUM_THREADS=1 python benchmarks/trees.py trees.jsonl [--seeds 8] [--sets digits oil_spill ...]

Five parties, dealt IID or by Dirichlet 0.3. Every model has 50 trees for each class (for two classes: 50):
`once` and `bagging` 10 of each party, averaged; `cyclic`, `collective` and `pooled` 50 in a row. Each has
the best of three learning rates, chosen for set, partition and mode by the validation rows of seed 0 (of Oil
spill, which has few positive rows, of all seeds; `collective` has that of `pooled`). The score is the
balanced accuracy over all test rows. Each cell is a line of the file and is not done again; the table of all
lines, with paired differences from `once`, is printed at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score

import fedhpo as fh
from fedhpo.data import FederatedData

PARTIES, TREES = 5, 50
PARTITIONS: dict[str, dict[str, Any]] = {
    "IID": {"kind": "iid"},
    "Dirichlet 0.3": {"kind": "dirichlet", "alpha": 0.3},
}
#: Training and trips, and rounds of boosting.
MODES: dict[str, tuple[dict[str, Any], int]] = {
    "once": ({"training": "bagging"}, TREES // PARTIES),
    "bagging, 10 trips": ({"training": "bagging", "trips": 10}, TREES // PARTIES),
    "cyclic, 10 trips": ({"training": "cyclic", "trips": 10}, TREES),
    "pooled": ({"training": "pooled"}, TREES),
    "collective": ({"training": "collective"}, TREES),
}
RATES = (0.1, 0.3, 0.6)
#: Seeds whose validation rows choose the learning rate; few of them hold few positive rows.
PILOTS = {"oil_spill": 8}


@cache
def dealt(name: str, partition: str, seed: int) -> FederatedData:
    """A set, dealt to the parties."""
    return fh.load(name, clients=PARTIES, partition=PARTITIONS[partition], seed=seed)


def rows_of(data: FederatedData, split: str) -> tuple[Any, Any]:
    """All rows of a split."""
    places = np.concatenate([getattr(data, split).rows(client) for client in range(data.clients)])
    return data.x[places].reshape(len(places), -1), data.y[places]


def scored(data: FederatedData, mode: str, rate: float) -> dict[str, float]:
    """Balanced accuracy on validation and test rows, and what was sent."""
    settings, rounds = MODES[mode]
    with fh.LearnerFederation(data, "xgboost", workers=0, **settings) as federation:
        federation.start(0, {}, seed=0)
        client = {"max_iter": rounds, "learning_rate": rate, "min_samples_leaf": 5, "l2_regularization": 1.0}
        [report] = federation.round([fh.Work(0, federation.train_clients, client, scores=())])
        model = federation.model(0)
        if model is None:
            raise RuntimeError(report.reasons)
        found = {}
        for split in ("validation", "test"):
            x, y = rows_of(data, split)
            found[split] = 100 * float(balanced_accuracy_score(y, model.predict(x)))
        return found | {"bytes_up": report.cost.bytes_up, "bytes_down": report.cost.bytes_down}


def measured(name: str, partition: str, seed: int, mode: str, rates: tuple[float, ...]) -> dict[str, Any]:
    """One cell: scores by learning rate."""
    data = dealt(name, partition, seed)
    begun = time.process_time()
    by_rate = {str(rate): scored(data, mode, rate) for rate in rates}
    seconds = time.process_time() - begun
    cell = {"set": name, "partition": partition, "seed": seed, "mode": mode}
    return cell | {"by_rate": by_rate, "cpu_seconds": seconds}


Cells = dict[tuple[str, str, str, int], dict[str, Any]]


def rate_of(cells: Cells, name: str, partition: str, mode: str) -> str | None:
    """The best learning rate by the validation rows of the first seeds, once these are done."""
    mode = "pooled" if mode == "collective" else mode
    wanted = [(name, partition, mode, seed) for seed in range(PILOTS.get(name, 1))]
    pilots = [cells[key] for key in wanted if key in cells]
    if not pilots:
        return None
    return max(map(str, RATES), key=lambda r: sum(one["by_rate"][r]["validation"] for one in pilots))


def mean(values: list[float], sign: str = "") -> str:
    """A mean with its standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):{sign}.1f} ± {error:.1f}"


def by_key(lines: list[dict[str, Any]]) -> Cells:
    """The cells by set, partition, mode and seed."""
    return {(o["set"], o["partition"], o["mode"], o["seed"]): o for o in lines}


def shown(lines: list[dict[str, Any]]) -> str:
    """The table: means, and paired differences from `once`."""
    found = [f"| set | parties | {' | '.join(MODES)} |", "| --- " * (2 + len(MODES)) + "|"]
    cells = by_key(lines)
    for name, partition in product(dict.fromkeys(o["set"] for o in lines), PARTITIONS):
        row = []
        for mode in MODES:
            rate = rate_of(cells, name, partition, mode)
            seeds = sorted(seed for s, p, m, seed in cells if (s, p, m) == (name, partition, mode))
            own = {s: cells[name, partition, mode, s]["by_rate"][rate]["test"] for s in seeds if rate}
            if mode == "once":
                once = own
                row.append(f"{mean(list(own.values()))} ({len(own)})" if own else "")
                continue
            paired = [own[seed] - once[seed] for seed in own if seed in once]
            row.append(f"{mean(paired, '+')} ({len(paired)})" if paired else "")
        found.append(f"| {name} | {partition} | {' | '.join(row)} |")
    return "\n".join(found)


def main() -> None:
    """Run what is not done yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--sets", nargs="+", default=["digits", "oil_spill", "eeg_eye_state"])
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    options = parser.parse_args()
    lines = (
        [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    )
    done = by_key(lines)
    for seed, name, partition, mode in product(range(options.seeds), options.sets, PARTITIONS, options.modes):
        key = (name, partition, mode, seed)
        if key in done:
            continue
        rate = rate_of(done, name, partition, mode)
        if mode == "collective" and rate is None:
            continue
        pilot = seed < PILOTS.get(name, 1) and mode != "collective"
        wanted = RATES if rate is None or pilot else (float(rate),)
        done[key] = measured(name, partition, seed, mode, wanted)
        with options.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[key]) + "\n")
    print(shown(list(done.values())))


if __name__ == "__main__":
    main()
