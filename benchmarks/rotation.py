"""What rotation gives: regret of private searches on the shipped tables, beside basic accounting.

    OMP_NUM_THREADS=1 python benchmarks/rotation.py rotation.jsonl [--seeds 100] [--tables mnist cifar10]
        [--methods hyperband random sha bohb] [--clients 1 10] [--epsilon 100 10 1]

Every search is replayed on a table and sees each score at few clients, with Laplace noise. Its regret is the
true error of what it chose, over all validation clients, minus that of the best config of the table; clients
count the same. Each finished cell of seeds is a line of the file, and is not done again; the table of all
lines is printed at the end, in points of error with standard errors.
"""

from __future__ import annotations

import argparse
import json
import statistics
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


def regrets(table: CurveTable, method: str, clients: int, epsilon: float, accounting: str, seeds: int) -> Any:
    """The regret of each seed, in points."""
    last = int(table.rounds[-1])
    able = [place for place, trained in enumerate(table.trained) if trained >= last]
    best = min(table.truth(place, last, OBJECTIVE) for place in able)
    privacy = fh.Privacy(epsilon, accounting=accounting)  # type: ignore[arg-type]
    # Basic accounting as in the papers: every trial at clients of its own, as with rotation.
    evaluation = Evaluator(clients=clients, paired=False, privacy=privacy)
    found = (
        replay(table, method, seed=seed, objective=OBJECTIVE, evaluation=evaluation) for seed in range(seeds)
    )
    return [100 * (one.truth - best) for one in found]


def cells(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What is to be done, by name."""
    names = ("method", "clients", "epsilon", "table", "accounting")
    given = (options.methods, options.clients, options.epsilon, options.tables, ACCOUNTING)
    return [dict(zip(names, values, strict=True)) for values in product(*given)]


def shown(done: list[dict[str, Any]]) -> str:
    """A table in Markdown: a line for each table, method and number of clients."""
    names = ("table", "method", "clients", "epsilon", "accounting")
    found = {tuple(line["cell"][name] for name in names): line["regret"] for line in done}
    budgets = sorted({key[3] for key in found})
    heads = [f"eps {epsilon:g}, {accounting}" for epsilon in budgets for accounting in ACCOUNTING]
    lines = [f"| table | method | clients | {' | '.join(heads)} |", "| --- " * (3 + len(heads)) + "|"]
    for table, method, clients in sorted({key[:3] for key in found}):
        values = [
            _said(found.get((table, method, clients, epsilon, accounting)))
            for epsilon in budgets
            for accounting in ACCOUNTING
        ]
        lines.append(f"| {table} | {method} | {clients} | {' | '.join(values)} |")
    return "\n".join(lines)


def _said(values: list[float] | None) -> str:
    if values is None:
        return ""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{statistics.mean(values):.1f} ± {error:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--tables", nargs="+", default=["mnist", "cifar10"])
    parser.add_argument("--methods", nargs="+", default=["hyperband", "random", "sha", "bohb"])
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 10])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[100.0, 10.0, 1.0])
    options = parser.parse_args()
    done = (
        [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    )
    known = [line["cell"] for line in done if len(line["regret"]) == options.seeds]
    tables = {name: load_table(name) for name in options.tables}
    for cell in cells(options):
        if cell in known:
            continue
        own = {name: value for name, value in cell.items() if name != "table"}
        line = {"cell": cell, "regret": regrets(tables[cell["table"]], **own, seeds=options.seeds)}
        with options.file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        done.append(line)
    print(shown([line for line in done if len(line["regret"]) == options.seeds]))


if __name__ == "__main__":
    main()
