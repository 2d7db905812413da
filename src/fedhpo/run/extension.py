"""Raising the total of a run: it goes on from where its search ended.

A run keeps every total that it had. The method runs from the top again, first as it did within the first
total, then on within the next: so its calls begin with those that are recorded. What came after the search (a
comparison with the user's own config, test scores) is cut off and done anew; what that cost is still charged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import Concerns, InputError
from fedhpo.run.record import Record, StateFile

#: Says why a method cannot go on from one total to a larger one; empty if it can.
Refusal = Callable[[int, int], str]


def total_of(study: Mapping[str, Any]) -> int | None:
    """The total of a study as the record holds it."""
    found = (study.get("budget") or {}).get("total")
    return found if isinstance(found, int) else None


def without_total(study: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded study without its total, which may also stand in the study file.

    >>> without_total({"budget": {"rounds": 5, "total": 50}, "study": {"budget": {"total": 50}}})
    {'budget': {'rounds': 5}, 'study': {'budget': {}}}
    """
    plain: dict[str, Any] = json.loads(canonical(study))
    for tables in (plain, plain.get("study")):
        if isinstance(tables, dict) and isinstance(tables.get("budget"), dict):
            tables["budget"].pop("total", None)
    return plain


def totals(record: Record) -> list[int]:
    """Every total that the run had, the first one first."""
    kept = record.get("totals")
    now = total_of(record.get("study") or {})
    return list(kept) if kept else [] if now is None else [now]


def extend(path: Path, record: Record, study: Mapping[str, Any], refusal: Refusal | None) -> bool:
    """Raise the run's total to that of `study`, if it is larger and the method can go on; else refuse.

    Returns whether anything was raised.
    """
    old, new = total_of(record.get("study") or {}), total_of(study)
    if old is None or new is None or old == new:
        return False
    if new < old:
        raise InputError(
            f"run {path} has a total of {old} rounds, not {new}: a total can be raised, not lowered; "
            "choose another name",
            concerns=Concerns.RUN,
        )
    why = "it is not known how its plan goes on" if refusal is None else refusal(old, new)
    ended = record.get("searched")
    if not why and ended is None and record.get("status") == "finished":
        why = "an earlier version of fedhpo made it, which did not keep where its search ended"
    if why:
        raise InputError(
            f"run {path} has a total of {old} rounds, which cannot be raised to {new}: {why}; "
            "choose another name, and enqueue the best config of this run there",
            concerns=Concerns.RUN,
        )
    facts = {"study": study, "totals": [*totals(record), new], "status": "stopped"}
    if ended is None:  # it never came to the end of its search: nothing is in the way
        record.set(**facts)
    else:
        files = {int(trial): StateFile(*file) for trial, *file in ended["files"]}
        record.cut(int(ended["event"]), files, facts | {"searched": None, "search_rounds": None})
    return True
