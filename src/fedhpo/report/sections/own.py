"""The sections that a method brought along: drawn from the data in result.json, escaped, by the same code for
all methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from fedhpo.figures.view import RunView
from fedhpo.methods.sections import sections_told
from fedhpo.pages.figure import Figure, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import number
from fedhpo.protocol.sections import check_section

_LOWEST, _HIGHEST = 120, 2000
#: Figures up to this height are small.
_SMALL = 240


def own(view: RunView) -> list[Section]:
    """One for each that the result holds."""
    found = []
    result = {"space": view.asked.get("space", {}), **view.result}
    for place, one in enumerate(sections_told(result)):
        check_section(one)
        parts = list(enumerate(one["parts"]))
        body = [
            _figures([(part["figure"], f"own-{place}-{i}") for i, part in group])
            if of_figures
            else "\n".join(_part(part) for _, part in group)
            for of_figures, group in groupby(parts, key=lambda part: "figure" in part[1])
        ]
        found.append(Section(str(one["title"]), "\n".join(body)))
    return found


def _figures(given: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """Figures that follow each other stand side by side, small ones together."""
    made = [(_figure(one), name) for one, name in given]
    small = [drawn(one, name) for one, name in made if one["layout"]["height"] <= _SMALL]
    large = [drawn(one, name) for one, name in made if one["layout"]["height"] > _SMALL]
    body = f"<div class=pair>{''.join(large)}</div>" if large else ""
    return body + (f"<div class=small>{''.join(small)}</div>" if small else "")


def _part(part: Mapping[str, Any]) -> str:
    return f"<p>{text(part['paragraph'])}</p>" if "paragraph" in part else _table(part["table"])


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


def _figure(given: Mapping[str, Any]) -> Figure:
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
