"""`fedhpo check`: is this study right, and what will it cost? Nothing is tuned."""

from __future__ import annotations

import argparse

from fedhpo.cli import OK
from fedhpo.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    """Build everything, try one batch, print what would happen."""
    from fedhpo.study import Study
    from fedhpo.study.outlook import outlook

    found = outlook(Study.load(options.study), options.workers)
    if options.json:
        print_json(found.facts)
        return OK
    width = max(len(label) for rows in found.rows.values() for label, _ in rows)
    for title, rows in found.rows.items():
        print(title)
        for label, words in rows:
            print(f"  {label:<{width}}  {words}" if label else f"  {words}")
    print(f"{options.study} is right; tune it with: fedhpo tune {options.study}")
    return OK
