"""What objects look like in a notebook: plain HTML tables, with everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

#: Rows of a table that a notebook shows.
MOST = 60


def facts_as_html(title: str, facts: Mapping[str, Any]) -> str:
    """A title and a table of names and values; empty values are left out.

    >>> facts_as_html("<b>", {"clients": 3, "note": ""})
    '<b>&lt;b&gt;</b><table><tr><th style="text-align:left">clients</th><td>3</td></tr></table>'
    """
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(str(name))}</th><td>{escape(shown(value))}</td></tr>'
        for name, value in facts.items()
        if value not in (None, "")
    )
    return f"<b>{escape(title)}</b><table>{rows}</table>"


def table_as_html(columns: Sequence[str], rows: Iterable[Sequence[Any]], total: int) -> str:
    """Rows under their columns' names; of many rows the first."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = []
    for place, row in enumerate(rows):
        if place >= MOST:
            lines.append(f"<tr><td colspan={len(columns)}>and {total - MOST} rows more</td></tr>")
            break
        lines.append("<tr>" + "".join(f"<td>{escape(shown(value))}</td>" for value in row) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def shown(value: Any) -> str:
    """A value in a cell: numbers with four digits, nothing as a dash.

    >>> shown(0.123456), shown(None), shown(3)
    ('0.1235', '-', '3')
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
