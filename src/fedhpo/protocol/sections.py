"""Sections that a method, or a part of one, adds to the report: plain data, drawn by code of ours.

A method may have `sections(search)`, which is called once the search is over, and so may a schedule, a
sampler and a client policy. What it returns is kept in result.json. Reading a run imports nothing that the
run names, so the report draws from these data alone.

>>> section("Copies", "Who copied whom.", table(["trial", "copied from"], [[0, 3]]))
{'title': 'Copies', 'parts': [{'paragraph': 'Who copied whom.'}, {'table': {'columns': ['trial', \
'copied from'], 'rows': [[0, 3]]}}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import plain_number, shown

#: The most characters that a section's JSON may have: a report is read by people.
MOST = 1 << 20


def section(title: str, *parts: str | Mapping[str, Any]) -> dict[str, Any]:
    """A section of the report: its title, and paragraphs (strings), tables and figures in order."""
    if not isinstance(title, str) or not title:
        raise InputError(f"title of a report section must be a string, not {shown(title)}")
    made = [{"paragraph": part} if isinstance(part, str) else part for part in parts]
    found = {"title": title, "parts": made}
    check_section(found)
    return found


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """A table: cells are strings, numbers, true, false or None."""
    cells = [[plain_number(cell) for cell in row] for row in rows]
    return {"table": {"columns": [str(column) for column in columns], "rows": cells}}


def figure(data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A figure, as plotly.js takes it: traces and what is special of the layout, as plain JSON.

    >>> figure([{"x": [1, 2], "y": [0.5, 0.7]}])
    {'figure': {'data': [{'x': [1, 2], 'y': [0.5, 0.7]}], 'layout': {}}}
    """
    return {"figure": {"data": [dict(trace) for trace in data], "layout": dict(layout or {})}}


def check_section(found: Any) -> None:
    """Refuse what is no section, or cannot be written as JSON.

    >>> check_section({"title": "Copies", "parts": [{"tables": {}}]})
    Traceback (most recent call last):
    ...
    fedhpo.InputError: report section 'Copies': part 0 must be a paragraph, a table or a figure, found tables
    """
    if not isinstance(found, Mapping) or set(found) != {"title", "parts"}:
        raise InputError(f"a report section has a title and parts (see `section`), found {shown(found)}")
    where = f"report section {shown(found['title'])}"
    for place, part in enumerate(found["parts"]):
        kind = next(iter(part)) if isinstance(part, Mapping) and len(part) == 1 else shown(part)
        if kind not in ("paragraph", "table", "figure"):
            raise InputError(f"{where}: part {place} must be a paragraph, a table or a figure, found {kind}")
        if kind == "table":
            _check_table(part["table"], f"{where}: part {place}")
    try:
        length = len(json.dumps(found))
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: must be plain JSON: {error}") from None
    if length > MOST:
        raise InputError(f"{where}: has {length} characters as JSON, at most {MOST} are shown")


def _check_table(given: Mapping[str, Any], where: str) -> None:
    columns = len(given["columns"])
    for row in given["rows"]:
        if len(row) != columns:
            raise InputError(f"{where}: a row has {len(row)} cells, and there are {columns} columns")
        for cell in row:
            if cell is not None and not isinstance(cell, str | int | float | bool):
                allowed = "a string, a number, true, false or None"
                raise InputError(f"{where}: a cell must be {allowed}, not {shown(cell)}")
