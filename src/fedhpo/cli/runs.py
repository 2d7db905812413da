"""`fedhpo runs`: what runs there are, and how far they are."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.cli.tune import note


def run(options: argparse.Namespace) -> int:
    """List the runs of a directory, oldest first."""
    from fedhpo.core.errors import InputError
    from fedhpo.run import list_runs
    from fedhpo.tuning.result import Table

    directory = Path(options.directory or options.runs)
    if not directory.is_dir():
        raise InputError(f"DIR = {str(directory)!r}: no such directory")
    found = [facts | _rounds(facts) | _result(directory / facts["name"]) for facts in list_runs(directory)]
    if options.json:
        print_json({"runs": found})
    elif found:
        own = any(facts.get("baseline_rounds") for facts in found)
        print(Table([_row(facts, own) for facts in found]))
        for facts in found:
            if facts.get("reason"):
                note(facts["reason"])
    else:
        print(f"no runs in {directory}")
    return OK


def _rounds(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Rounds of the search, and those more that trained the user's own config to the end."""
    spent, searched = facts.get("spent", {}).get("rounds"), facts.get("search_rounds")
    searched = spent if searched is None else searched
    return {"rounds": searched, "baseline_rounds": None if spent is None else spent - searched}


def _result(path: Path) -> dict[str, Any]:
    """Of a finished run: the winner's score, whether it is an improvement, and the rounds it says.

    Where the file of the result is damaged: why these are not known.
    """
    from fedhpo.core.errors import FedhpoError
    from fedhpo.core.run_errors import DamageError
    from fedhpo.pages.phrasing import rounds_of
    from fedhpo.run import open_read
    from fedhpo.search.verdict import verdict_of

    nothing: dict[str, Any] = {"metric": None, "score": None, "verdict": None}
    try:
        with open_read(path) as run:
            result: Any = run.result()
        searched, own = rounds_of(result["cost"])
        return {
            "metric": result["objective"]["metric"],
            "score": result["best"]["validation"]["value"],
            "verdict": verdict_of(result).kind,
            "rounds": searched,
            "baseline_rounds": own,
        }
    except DamageError as error:
        return nothing | {"reason": str(error)}
    except (FedhpoError, TypeError, KeyError):  # not finished, or a run of another kind
        return nothing


def _row(facts: Mapping[str, Any], own: bool) -> dict[str, Any]:
    row = {
        "name": facts["name"],
        "status": facts["status"],
        "method": facts.get("method"),
        "rounds": facts["rounds"],
        "for your config": facts["baseline_rounds"],
        "score": facts["score"],
        "metric": facts["metric"],
        "gain": facts["verdict"],
        "minutes": round(facts.get("active_seconds", 0.0) / 60, 1),
        "begun": _when(facts["created"]),
    }
    shown = {key: _printable(value) if isinstance(value, str) else value for key, value in row.items()}
    return shown if own else {name: value for name, value in shown.items() if name != "for your config"}


def _when(seconds: float | None) -> str | None:
    try:
        return None if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):  # no time that there is
        return "?"


def _printable(text: str) -> str:
    """A name from a record must not steer the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
