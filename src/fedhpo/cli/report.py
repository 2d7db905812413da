"""`fedhpo report`: one HTML page about one run, or about several."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedhpo.cli import OK
from fedhpo.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    from fedhpo.report import write_report

    paths = [Path(run) for run in dict.fromkeys(options.runs)]
    default = paths[0] / "report.html" if len(paths) == 1 else Path("comparison.html")
    written = write_report(paths, Path(options.output) if options.output else default)
    print_json({"report": str(written)}) if options.json else print(written)
    return OK
