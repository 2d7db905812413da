"""What outside proposals do to `auto`: useless and hostile ones must cost little, good ones should help.

    python benchmarks/proposals.py [--seeds 200] [--first 1000] [--tables shakespeare femnist]

Replays on tables, scores from 10% of the clients, rounds of eight full trainings in all. `auto` takes robust
halving there; beside it the same with `Proposals`, whose share is 0.3, at first one trial, then a
sixth of it until full trainings have earned more, and whoever proposes knows the table:

- random: any config;
- worst: one of the worst quarter;
- misleading: one that stands best after the first rung compared with how it ends;
- good: one of the best tenth.

Regret is the best true score of the table minus that of the config found, in points. Exits 1 where the mean
regret with random, worst or misleading proposals is above 1.1 times that of `auto` on a table.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import fedhpo as fh
from fedhpo.core.streams import stream
from fedhpo.methods.robust import RobustHalving
from fedhpo.research.tables import CurveTable, load_table
from fedhpo.research.tables.replay import replay
from fedhpo.samplers import BOHB, Proposals
from fedhpo.search.evaluator import Evaluator

LIMIT, TOTAL = 1.1, 648
#: Proposals in the file: more than their share of such a search.
MOST = 16
KINDS = ("random", "worst", "misleading", "good")


def pools(table: CurveTable) -> dict[str, list[fh.Config]]:
    """The configs that each kind proposes, and the score by which regret is counted."""
    last, first = int(table.rounds[-1]), int(table.rounds[table.place(max(1, int(table.rounds[-1]) // 9))])
    objective = table.study.objective
    sign = 1 if objective.maximise else -1
    count = len(table.configs)
    end = np.array([sign * table.truth(one, last, objective) for one in range(count)])
    early = np.array([sign * table.truth(one, first, objective) for one in range(count)])
    rank = lambda values: np.argsort(np.argsort(values))  # noqa: E731
    gap = rank(early) - rank(end)
    order = np.argsort(-end)
    chosen = {
        "random": np.arange(count),
        "worst": order[-(count // 4) :],
        "misleading": np.argsort(-gap)[: count // 8],
        "good": order[: max(1, count // 10)],
    }
    return {kind: [table.configs[int(one)] for one in some] for kind, some in chosen.items()}


def regrets(
    table: CurveTable, kind: str | None, some: list[fh.Config], seeds: range, best: float, file: Path
) -> np.ndarray:
    """One number for each seed, in points."""
    objective = table.study.objective
    found = []
    for seed in seeds:
        method: fh.Tuner | fh.Auto = fh.Auto()
        if kind is not None:
            order = stream(seed, "proposed").permutation(len(some))[:MOST]
            file.write_text("".join(json.dumps(some[int(one)].to_dict()) + "\n" for one in order))
            method = fh.Tuner(RobustHalving(), Proposals(str(file), sampler=BOHB()))
        done = replay(
            table, method, seed=seed, total=TOTAL, objective=objective, evaluation=Evaluator(clients=0.1)
        )
        found.append(100 * abs(best - done.truth))
    return np.array(found)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000, help="the first seed (default: 1000)")
    parser.add_argument("--tables", nargs="+", default=["shakespeare", "femnist"])
    options = parser.parse_args()
    missed, seeds = [], range(options.first, options.first + options.seeds)
    file = Path(tempfile.mkdtemp()) / "proposals.jsonl"
    for name in options.tables:
        table, began = load_table(name), time.perf_counter()
        objective = table.study.objective
        truths = [table.truth(one, int(table.rounds[-1]), objective) for one in range(len(table.configs))]
        best = max(truths) if objective.maximise else min(truths)
        auto = regrets(table, None, [], seeds, best, file)
        error = auto.std(ddof=1) / np.sqrt(len(auto))
        print(
            f"{name}: auto has a regret of {auto.mean():.2f} points (standard error {error:.2f})", flush=True
        )
        for kind, some in pools(table).items():
            mine = regrets(table, kind, some, seeds, best, file)
            ratio = mine.mean() / auto.mean()
            gap = (mine - auto).std(ddof=1) / np.sqrt(len(auto))
            print(
                f"  {kind:<11} {mine.mean():.2f} points, {ratio:.2f} times auto's; difference "
                f"{mine.mean() - auto.mean():+.2f} (standard error {gap:.2f})",
                flush=True,
            )
            if kind != "good" and ratio > LIMIT:
                missed.append(f"{name}, {kind}: {ratio:.2f} times auto's regret, above {LIMIT}")
        print(f"  {time.perf_counter() - began:.0f} s")
    for line in missed:
        print(f"MISSED: {line}")
    print("all limits are kept" if not missed else f"{len(missed)} limits are missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
