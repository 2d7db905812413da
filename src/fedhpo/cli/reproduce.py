"""`fedhpo reproduce`: a paper's experiments run again, its claims judged."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.core.errors import InputError


def run(options: argparse.Namespace) -> int:
    """Run what has not been run yet, print tables and verdicts, and say where the pages are."""
    from fedhpo.reproduce import reproduction

    module = reproduction(options.name)
    if options.page:
        return _said(module.page(options.scale, Path(options.output)), options)
    only = [part for parts in options.only or () for part in parts.split(",")]
    only += [f"table{number}" for numbers in options.table or () for number in numbers.split(",")]
    found = module.run(
        options.scale,
        only=only,
        runs=Path(options.runs) / options.name,
        out=options.output,
        workers=options.workers,
        say=lambda text: None if options.quiet else print(text, file=sys.stderr, flush=True),
        **_tables(options),
        **_kept(options),
    )
    return _said(found, options)


def _said(found: dict[str, Any], options: argparse.Namespace) -> int:
    from fedhpo.pages.numbers import finite

    if options.json:
        print_json(finite({key: value for key, value in found.items() if key != "text"}))
        return OK
    print(found["text"])
    for what in ("page", "figures", "data"):
        if what in found:
            print(f"{what}: {found[what]}")
    return OK


def _kept(options: argparse.Namespace) -> dict[str, bool]:
    """The page of what is done so far, for the reproduction that can tell it."""
    if options.kept and options.name != "fedtune":
        raise InputError(f"--kept goes with fedtune only, not with {options.name}")
    return {"kept": True} if options.kept else {}


def _tables(options: argparse.Namespace) -> dict[str, list[str]]:
    """Tables in place of those that come with fedhpo, for the reproduction that goes by tables."""
    if options.on and options.name != "noisy-eval":
        raise InputError(f"--on goes with noisy-eval only, not with {options.name}")
    return {"tables": options.on} if options.on else {}
