"""Pieces of HTML. Everything that comes from outside passes through `text`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


def text(value: Any) -> str:
    """A value as text in HTML.

    >>> text("<b>&")
    '&lt;b&gt;&amp;'
    """
    return html.escape(str(value))


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading and finished HTML."""

    title: str
    body: str

    def render(self) -> str:
        """As HTML."""
        return f"<section><h2>{text(self.title)}</h2>\n{self.body}\n</section>"


def how_to_read(*sentences: str) -> str:
    """What a figure means, at greater length, folded away below it.

    >>> how_to_read("Higher is better.")
    '<details class=about><summary>How to read it</summary><p>Higher is better.</p></details>'
    """
    lines = "".join(f"<p>{text(one)}</p>" for one in sentences)
    return f"<details class=about><summary>How to read it</summary>{lines}</details>"


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what is shown, and what it is sorted by."""

    shown: str
    key: float | str | None = None
    style: str = ""


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    numeric: Iterable[str] = (),
    marks: Iterable[str] = (),
    filtered: bool = False,
    folds: int = 0,
) -> str:
    """A table whose columns sort on a click; `numeric` columns are right-aligned, `marks` classes of rows.

    One that is `filtered` has a field above it that keeps the rows which hold what is typed there. One that
    `folds` shows so many columns of each row on a phone, and the others at a touch.
    """
    right = [column in set(numeric) for column in columns]
    head = "".join(
        f"<th{' class=n' if is_right else ''} tabindex=0>{text(column)}</th>"
        for column, is_right in zip(columns, right, strict=True)
    )
    classes = iter(marks)
    lines = []
    for row in rows:
        mark = next(classes, "")
        cells = "".join(
            f'<td class="{"n " if is_right else ""}{cell.style}" data-key="{text(_key(cell))}">'
            f"{text(cell.shown)}</td>"
            for cell, is_right in zip(row, right, strict=True)
        )
        lines.append(f'<tr class="{mark}">{cells}</tr>')
    body = "\n".join(lines)
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    fold = f' data-folds="{folds}"' if folds else ""
    made = f'<div class=scroll><table class="sortable{" folds" if folds else ""}"{fold}>{inner}</table></div>'
    if not filtered:
        return made
    field = '<input type="search" placeholder="filter rows" aria-label="filter rows">'
    return f"<div class=filtered><p>{field}<output></output></p>{made}</div>"


def _key(cell: Cell) -> float | str:
    return cell.shown if cell.key is None else cell.key


def facts(rows: Iterable[tuple[str, Any]]) -> str:
    """Names and values, one pair a line."""
    lines = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in rows)
    return f"<dl>{lines}</dl>"
