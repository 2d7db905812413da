"""The sections that a method brought along: drawn from the data in result.json, escaped, by the same code for
all methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.pages.figure import axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import number
from fedhpo.protocol.sections import check_section
from fedhpo.report.view import RunView

_LOWEST, _HIGHEST = 120, 2000


def own(view: RunView) -> list[Section]:
    """One for each that the result holds."""
    found = []
    for place, one in enumerate(view.result.get("sections") or ()):
        check_section(one)
        body = "\n".join(_part(part, f"own-{place}-{i}") for i, part in enumerate(one["parts"]))
        found.append(Section(str(one["title"]), body))
    return found


def _part(part: Mapping[str, Any], name: str) -> str:
    if "paragraph" in part:
        return f"<p>{text(part['paragraph'])}</p>"
    if "table" in part:
        return _table(part["table"])
    return drawn(_figure(part["figure"]), name)


def _table(given: Mapping[str, Any]) -> str:
    columns, rows = [str(column) for column in given["columns"]], given["rows"]
    numeric = [
        column
        for place, column in enumerate(columns)
        if all(_is_number(row[place]) or row[place] is None for row in rows)
    ]
    return table(columns, [[_cell(value) for value in row] for row in rows], numeric=numeric)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any) -> Cell:
    if value is None:
        return Cell("–", "")
    return Cell(number(value), value) if _is_number(value) else Cell(str(value))


def _figure(given: Mapping[str, Any]) -> dict[str, Any]:
    """The figure in the report's style; its texts are shown as they are, tags and all."""
    layout = _escaped({key: value for key, value in given["layout"].items() if key not in ("xaxis", "yaxis")})
    axes = [axis("") | _escaped(given["layout"].get(key) or {}) for key in ("xaxis", "yaxis")]
    height = layout.get("height")
    layout["height"] = min(max(height, _LOWEST), _HIGHEST) if _is_number(height) else 360
    return figure([_escaped(trace) for trace in given["data"]], *axes, **layout)


def _escaped(value: Any) -> Any:
    """The same data, in whose strings plotly finds no tag."""
    if isinstance(value, Mapping):
        return {str(key): _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(inner) for inner in value]
    return text(value) if isinstance(value, str) and "<" in value else value
