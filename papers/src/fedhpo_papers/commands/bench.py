"""`fedhpo bench`: methods on tables under every kind of noise, and the page of it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from fedhpo.cli import OK
from fedhpo.cli.arguments import add_output, natural, positive
from fedhpo.cli.output import print_json


def add(one: argparse.ArgumentParser) -> None:
    """The command's options."""
    one.add_argument(
        "--suite", default="quick", help="quick, standard, messages, full or smoke (default: quick)"
    )
    one.add_argument(
        "-m", "--method", action="append", metavar="NAME", help="may be given again (default: all)"
    )
    one.add_argument(
        "--table",
        action="append",
        metavar="TABLE",
        help="name or file; may be given again (default: shipped)",
    )
    one.add_argument(
        "--reference", metavar="NAME", default="auto", help="what others are compared with (default: auto)"
    )
    one.add_argument("--seeds", type=positive, metavar="N", help="(default: the suite's)")
    one.add_argument(
        "--test", action="append", metavar="NAME", help="a table that nothing was tried on, to be kept apart"
    )
    one.add_argument("--plan", metavar="FILE", help="fixes test tables and code before they are played")
    one.add_argument(
        "--again", action="store_true", help="play test tables though the code is not that of the plan"
    )
    add_output(one, "FILE", help="the page (default: bench-SUITE.md, with .html and .json beside it)")
    one.add_argument("--runs", metavar="DIR", default="runs", help="where cells are kept (default: runs)")
    one.add_argument(
        "--cells",
        metavar="FILE",
        help="cells to go on from, such as docs/bench-cells.xz; written anew with all",
    )
    one.add_argument("--workers", type=natural, metavar="N", help="worker processes (default: one per core)")
    one.add_argument(
        "--known", action="store_true", help="play nothing: the page of the cells that are there already"
    )
    one.add_argument("--note", default="", metavar="TEXT", help="a sentence for the top of the page")
    one.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    """Play what is missing, write the page, print the leaderboard."""
    from fedhpo.pages.numbers import finite
    from fedhpo.tuning.result import Table
    from fedhpo_papers.bench import bench
    from fedhpo_papers.bench.leaderboard import ranking
    from fedhpo_papers.bench.page import write

    facts, results = bench(
        options.suite,
        methods=options.method or (),
        tables=options.table or (),
        test=options.test or (),
        reference=options.reference,
        seeds=options.seeds,
        directory=Path(options.runs) / f"bench-{options.suite}",
        cells=options.cells,
        workers=options.workers,
        known=options.known,
        note=options.note,
        plan=options.plan,
        again=options.again,
        say=(lambda line: None) if options.quiet else _Lines(),
    )
    written = write(facts, results, options.output or f"bench-{options.suite}.md")
    overall = ranking(results, "all settings", results.settings)
    if options.json:
        print_json({**written, **finite({**facts, "overall": overall.data})})
        return OK
    rows = [dict(zip(overall.columns, row, strict=True)) for row in overall.rows]
    print(Table(rows) if rows else "no method has cells under all settings")
    for method, why, where in results.refused:
        print(f"{method} ({', '.join(where)}): {why}")
    print(written["page"])
    return OK


class _Lines:
    """The first line, and one every 20 seconds."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, line: str) -> None:
        if time.monotonic() - self._last > 20:
            self._last = time.monotonic()
            print(line, file=sys.stderr, flush=True)
