"""`fedhpo reproduce`: a paper's experiments run again, its claims judged."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fedhpo.cli import OK
from fedhpo.cli.arguments import add_output, natural
from fedhpo.cli.output import print_json
from fedhpo.core.errors import InputError
from fedhpo_papers import REPRODUCTIONS, reproduction


def add(one: argparse.ArgumentParser) -> None:
    """The command's options."""
    one.add_argument("name", metavar="NAME", help=", ".join(REPRODUCTIONS))
    one.add_argument("--scale", default="default", help="default, paper or smoke (default: default)")
    one.add_argument("--only", action="append", metavar="PART", help="only these parts; may be given again")
    one.add_argument(
        "--on", action="append", metavar="TABLE", help="for noisy-eval: tables other than those shipped"
    )
    one.add_argument("--runs", metavar="DIR", default="runs", help="where runs are kept (default: runs)")
    add_output(one, "DIR", default="docs/reproductions", help="(default: docs/reproductions)")
    one.add_argument(
        "--table", action="append", metavar="N", help="only this table of the paper; may be given again"
    )
    one.add_argument(
        "--page", action="store_true", help="write the page again from the data in the output, run nothing"
    )
    one.add_argument(
        "--kept", action="store_true", help="for fedtune: the page of the worlds that are done, run nothing"
    )
    one.add_argument("--workers", type=natural, metavar="N", help="worker processes")
    one.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    """Run what has not been run yet, print tables and verdicts, and say where the pages are."""
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
