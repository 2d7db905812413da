"""What rotation gives: regret of private searches on the shipped tables, beside basic accounting.

    OMP_NUM_THREADS=1 python benchmarks/rotation.py rotation.jsonl [--seeds 100] [--tables mnist cifar10]
        [--methods hyperband random sha bohb] [--clients 1 10] [--epsilon 100 10 1]

Every search is replayed on a table and sees each score at few clients, with Laplace noise. Its regret is the
true error of what it chose, over all validation clients, minus that of the best config of the table; clients
count the same. Each finished cell is a line of the file. A cell with fewer seeds than asked for goes on from
its last one, so that few seeds of everything may come first. The table of all lines is printed at the end, in
points of error with standard errors; where cells differ in seeds, with their number.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import fedhpo as fh
from fedhpo.protocol.objective import Objective
from fedhpo.research.tables import CurveTable, load_table
from fedhpo.research.tables.replay import replay
from fedhpo.search.evaluator import Evaluator

OBJECTIVE = Objective("error", weighting="uniform")
ACCOUNTING = ("basic", "rotation")


def regrets(
    table: CurveTable, method: str, clients: int, epsilon: float, accounting: str, seeds: Iterable[int]
) -> list[float]:
    """The regret of each seed, in points."""
    last = int(table.rounds[-1])
    able = [place for place, trained in enumerate(table.trained) if trained >= last]
    best = min(table.truth(place, last, OBJECTIVE) for place in able)
    privacy = fh.Privacy(epsilon, accounting=accounting, held_out=0.0)  # type: ignore[arg-type]
    # Basic accounting as in the papers: every trial at clients of its own, as with rotation.
    evaluation = Evaluator(clients=clients, paired=False, privacy=privacy)
    found = (replay(table, method, seed=seed, objective=OBJECTIVE, evaluation=evaluation) for seed in seeds)
    return [100 * (one.truth - best) for one in found]


def cells(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What is to be done, by name."""
    names = ("method", "clients", "epsilon", "table", "accounting")
    given = (options.methods, options.clients, options.epsilon, options.tables, ACCOUNTING)
    return [dict(zip(names, values, strict=True)) for values in product(*given)]


def read(file: Path) -> dict[str, list[float]]:
    """The regrets of each cell, which is written as JSON; the last line of a cell has most."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {json.dumps(one["cell"]): one["regret"] for one in map(json.loads, lines)}


def shown(done: Mapping[str, list[float]]) -> str:
    """A table in Markdown: a line for each table, method and number of clients."""
    names = ("table", "method", "clients", "epsilon", "accounting")
    found = {tuple(json.loads(cell)[name] for name in names): values for cell, values in done.items()}
    budgets = sorted({key[3] for key in found})
    places = list(product(budgets, ACCOUNTING))
    heads = [f"eps {epsilon:g}, {accounting}" for epsilon, accounting in places]
    lines = [f"| table | method | clients | {' | '.join(heads)} |", "| --- " * (3 + len(heads)) + "|"]
    most = max(map(len, found.values()), default=0)
    for line in sorted({key[:3] for key in found}):
        values = [_said(found.get((*line, *place), []), most) for place in places]
        lines.append(f"| {' | '.join(map(str, line))} | {' | '.join(values)} |")
    return "\n".join(lines)


def _said(values: list[float], most: int) -> str:
    if len(values) < 2:
        return ""
    error = statistics.stdev(values) / len(values) ** 0.5
    seeds = f" ({len(values)})" if len(values) < most else ""
    return f"{statistics.mean(values):.1f} ± {error:.1f}{seeds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--tables", nargs="+", default=["mnist", "cifar10"])
    parser.add_argument("--methods", nargs="+", default=["hyperband", "random", "sha", "bohb"])
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 10])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[100.0, 10.0, 1.0])
    options = parser.parse_args()
    done = read(options.file)
    tables = {name: load_table(name) for name in options.tables}
    for cell in cells(options):
        before = done.get(json.dumps(cell), [])
        if len(before) >= options.seeds:
            continue
        own = {name: value for name, value in cell.items() if name != "table"}
        seeds = range(len(before), options.seeds)
        found = before + regrets(tables[cell["table"]], **own, seeds=seeds)
        with options.file.open("a") as file:
            file.write(json.dumps({"cell": cell, "regret": found}) + "\n")
        done[json.dumps(cell)] = found
    print(shown(done))


if __name__ == "__main__":
    main()
