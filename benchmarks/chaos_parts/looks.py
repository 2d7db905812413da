"""Looking at a run from outside, without touching it: its events, its result, its files."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Of a result, what depends on the clock; removed wherever it stands.
TIMES = frozenset({"times", "seconds", "wall_seconds"})
#: Of an event that is charged but not drawn yet, what stays.
CHARGED = ("number", "kind", "call", "epsilon")

Row = dict[str, Any]


@dataclass(frozen=True)
class Look:
    """What a record holds: whether a run was begun, and its events."""

    begun: bool = False
    events: list[Row] = field(default_factory=list)


def look(run: Path, scratch: Path) -> Look:
    """Read a copy of the record: opening the record itself would repair it."""
    if not (run / "record.sqlite").is_file():
        return Look()
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for name in ("record.sqlite", "record.sqlite-wal"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(run / name, scratch / name)
    with contextlib.closing(sqlite3.connect(scratch / "record.sqlite")) as database:
        database.row_factory = sqlite3.Row
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"meta", "events"} <= tables:
            return Look()
        begun = bool(database.execute("SELECT 1 FROM meta WHERE key = 'study'").fetchall())
        return Look(begun, [dict(row) for row in database.execute("SELECT * FROM events ORDER BY number")])


def changed(before: Sequence[Row], after: Sequence[Row]) -> str:
    """What is no longer as it was recorded, "" if nothing: an event that has a result never changes.

    >>> drawn = {"number": 1, "kind": "decide release", "call": b"", "epsilon": 1.0, "result": b"0.3"}
    >>> changed([drawn | {"result": None}], [drawn])
    ''
    >>> changed([drawn], [drawn | {"result": b"0.4"}])
    'event 1 (decide release): result changed after it was recorded'
    >>> changed([drawn], [])
    '1 of 1 events are gone'
    """
    if len(after) < len(before):
        return f"{len(before) - len(after)} of {len(before)} events are gone"
    for old, new in zip(before, after, strict=False):
        kept = CHARGED if old["result"] is None else tuple(old)
        for name in kept:
            if old[name] != new.get(name):
                return f"event {old['number']} ({old['kind']}): {name} changed after it was recorded"
    return ""


def released_twice(events: Sequence[Row]) -> str:
    """A private release that stands in the record twice, "" if there is none."""
    seen = set()
    for event in events:
        if event["kind"] == "decide release":
            if event["call"] in seen:
                return f"event {event['number']} releases again what was released"
            seen.add(event["call"])
    return ""


def outcome(run: Path) -> dict[str, Any]:
    """Result and history without times; what cannot be read is told in place of it."""
    try:
        result = untimed(json.loads((run / "result.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        result = f"unreadable: {error}"
    try:
        text = (run / "history.csv").read_text(encoding="utf-8")
        rows = [untimed(row) for row in csv.DictReader(io.StringIO(text))]
    except (OSError, ValueError) as error:
        rows = [{"unreadable": str(error)}]
    return {"result": result, "history": rows}


def untimed(value: Any) -> Any:
    """A copy without what depends on the clock."""
    if isinstance(value, dict):
        return {key: untimed(inner) for key, inner in value.items() if key not in TIMES}
    return [untimed(inner) for inner in value] if isinstance(value, list) else value


def difference(one: Any, other: Any, where: str = "") -> str:
    """The first place where two values differ, "" if they do not.

    >>> difference({"a": [1, 2]}, {"a": [1, 3]})
    'a.1: 2, now 3'
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                return f"{where}{key}: only {'then' if key in one else 'now'}"
            if found := difference(one[key], other[key], f"{where}{key}."):
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = (difference(a, b, f"{where}{i}.") for i, (a, b) in enumerate(zip(one, other, strict=True)))
        return next((text for text in found if text), "")
    return "" if one == other else f"{where[:-1]}: {str(one)[:80]}, now {str(other)[:80]}"


def torn(run: Path) -> str:
    """A file that a kill left half-written under its own name, "" if there is none."""
    with contextlib.suppress(FileNotFoundError):
        try:
            json.loads((run / "result.json").read_text(encoding="utf-8"))
        except ValueError:
            return "result.json is half-written"
    with contextlib.suppress(FileNotFoundError):
        if not (run / "history.csv").read_bytes().endswith(b"\n"):
            return "history.csv is half-written"
    with contextlib.suppress(FileNotFoundError):
        if not (run / "report.html").read_bytes().rstrip().endswith(b"</html>"):
            return "report.html is half-written"
    return ""
