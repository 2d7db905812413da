"""BOHB, GP, TPE and SHA before and after: another version of fedhpo beside this one, on the same seeds.

    OMP_NUM_THREADS=1 python benchmarks/before_after.py OLD FILE [--seeds 30] [--tables cifar10 mnist]
        [--methods bohb gp tpe sha]

OLD is the root of the other version's source tree, such as a git worktree of version 0.1.0. Each method is
replayed as that version has it by default, with 16 full trainings, on the tables that both hold: with all
clients, with one, and with one at epsilon 100. Regret is the true error of what it chose, over all validation
clients, minus that of the best config of the table; clients count the same. Each search is a line of FILE and
is not done again. At the end the means are printed in points of error, with standard errors, and the
differences seed by seed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

SETTINGS: dict[str, dict[str, Any]] = {
    "all clients": {},
    "1 client": {"clients": 1},
    "1 client, epsilon 100": {"clients": 1, "epsilon": 100.0},
}
#: Every search gets so many full trainings.
TRAININGS = 16
VERSIONS = ("before", "after")
Key = tuple[str, str, str, str, int]


def play(version: str, file: Path, options: argparse.Namespace) -> None:
    """Do the searches of a version that the file does not hold, with the fedhpo that is imported here."""
    done, tables = read(file), {name: table_named(name) for name in options.tables}
    wanted = product(range(options.seeds), options.tables, SETTINGS, options.methods)
    with file.open("a") as out:
        for seed, table, setting, method in wanted:
            key = (version, table, setting, method, seed)
            if key not in done:
                found = regret(tables[table], method, seed, **SETTINGS[setting])
                out.write(json.dumps([*key, round(found, 4)]) + "\n")
                out.flush()


def table_named(name: str) -> Any:
    """A table as the version that is imported here reads it: names of modules differ."""
    try:
        from fedhpo.research.tables import load_table
    except ImportError:
        from fedhpo.tables import load_table  # type: ignore[no-redef]
    return load_table(name)


def regret(
    table: Any, method: str, seed: int, clients: int | None = None, epsilon: float | None = None
) -> float:
    """Of one search, in points."""
    import fedhpo as fh

    try:
        from fedhpo.protocol.objective import Objective
        from fedhpo.research.tables.replay import replay
        from fedhpo.search.evaluator import Evaluator
    except ImportError:
        from fedhpo.evaluation import Evaluator, Objective  # type: ignore[no-redef]
        from fedhpo.tables.replay import replay  # type: ignore[no-redef]

    objective, last = Objective("error", weighting="uniform"), int(table.rounds[-1])
    able = [place for place, trained in enumerate(table.trained) if trained >= last]
    best = min(table.truth(place, last, objective) for place in able)
    privacy = None if epsilon is None else fh.Privacy(epsilon)
    evaluation = Evaluator(clients=clients, privacy=privacy)
    found = replay(
        table, method, total=TRAININGS * last, seed=seed, objective=objective, evaluation=evaluation
    )
    return 100 * (found.truth - best)


def read(file: Path) -> dict[Key, float]:
    """The regrets that the file holds; a last line that was cut short is left out."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return {(row[0], row[1], row[2], row[3], row[4]): row[5] for row in rows}


def shown(done: dict[Key, float], options: argparse.Namespace) -> str:
    """A table in Markdown: before, after, and after minus before by the seeds that both have."""
    lines = ["| table | setting | method | before | after | after - before | seeds |", "| --- " * 7 + "|"]
    for table, setting, method in product(options.tables, SETTINGS, options.methods):
        by_version = [
            {key[4]: value for key, value in done.items() if key[:4] == (version, table, setting, method)}
            for version in VERSIONS
        ]
        seeds = sorted(by_version[0].keys() & by_version[1].keys())
        if len(seeds) > 1:
            before, after = ([one[seed] for seed in seeds] for one in by_version)
            apart = [b - a for a, b in zip(before, after, strict=True)]
            told = " | ".join([said(before), said(after), said(apart, "+")])
            lines.append(f"| {table} | {setting} | {method} | {told} | {len(seeds)} |")
    return "\n".join(lines)


def said(values: Sequence[float], sign: str = "") -> str:
    """A mean and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):{sign}.2f} ± {error:.2f}"


def main() -> None:
    """Let each version play in a process of its own, and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--tables", nargs="+", default=["cifar10", "mnist"])
    parser.add_argument("--methods", nargs="+", default=["bohb", "gp", "tpe", "sha"])
    parser.add_argument("--play", choices=VERSIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play(options.play, options.file, options)
        return
    roots = (options.old, Path(__file__).parents[1])
    for version, root in zip(VERSIONS, roots, strict=True):
        environment = {**os.environ, "PYTHONPATH": str(root.resolve() / "src")}
        command = [sys.executable, *sys.argv, "--play", version]
        subprocess.run(command, env=environment, check=True)
    print(shown(read(options.file), options))


if __name__ == "__main__":
    main()
