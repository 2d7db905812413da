"""`fedhpo export`: a finished run for other tools."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedhpo.cli import OK
from fedhpo.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    """Write the trials where they are wanted, and say what was written."""
    from fedhpo.tuning.export import export
    from fedhpo.tuning.load import read_run

    result = read_run(Path(options.run))
    count = export(result, options.to, options.target, Path(options.run).resolve().name)
    said = {"run": options.run, "to": options.to, "target": options.target, "trials": count}
    print_json(said) if options.json else print(f"{count} trials written to {options.target}")
    return OK
