"""`fedhpo runs`: what runs there are, and how far they are."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from fedhpo.cli import OK


def run(options: argparse.Namespace) -> int:
    """List the runs of a directory, oldest first."""
    from fedhpo.errors import InputError
    from fedhpo.result import Table
    from fedhpo.run import list_runs

    directory = Path(options.directory)
    if not directory.is_dir():
        raise InputError(f"DIR = {str(directory)!r}: no such directory")
    found = [facts | _score(directory / facts["name"]) for facts in list_runs(directory)]
    if options.json:
        print(json.dumps({"runs": found}))
    elif found:
        print(Table([_row(facts) for facts in found]))
    else:
        print(f"no runs in {directory}")
    return OK


def _score(path: Path) -> dict[str, Any]:
    """The winner's score, of a finished run."""
    try:
        result = json.loads((path / "result.json").read_text(encoding="utf-8"))
        return {"metric": result["objective"]["metric"], "score": result["best"]["validation"]["value"]}
    except (OSError, ValueError, TypeError, KeyError):
        return {"metric": None, "score": None}


def _row(facts: dict[str, Any]) -> dict[str, Any]:
    spent = facts.get("spent", {})
    row = {
        "name": facts["name"],
        "status": facts["status"],
        "method": facts.get("method"),
        "rounds": spent.get("rounds"),
        "score": facts["score"],
        "metric": facts["metric"],
        "minutes": round(facts.get("active_seconds", 0.0) / 60, 1),
        "begun": _when(facts["created"]),
    }
    return {key: _printable(value) if isinstance(value, str) else value for key, value in row.items()}


def _when(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):  # no time that there is
        return "?"


def _printable(text: str) -> str:
    """A name from a record must not steer the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
