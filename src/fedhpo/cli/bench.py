"""`fedhpo bench`: methods on tables under every kind of noise, and the page of it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from fedhpo.cli import OK
from fedhpo.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    """Play what is missing, write the page, print the leaderboard."""
    from fedhpo.pages.numbers import finite
    from fedhpo.research.bench import bench
    from fedhpo.research.bench.leaderboard import ranking
    from fedhpo.research.bench.page import write
    from fedhpo.tuning.result import Table

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
