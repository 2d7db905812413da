"""Several figures in one place, of which the reader chooses one."""

from __future__ import annotations

from collections.abc import Mapping

from fedhpo.pages.figure import Figure, as_json, drawn
from fedhpo.pages.html import text


def choice(figures: Mapping[str, Figure], name: str, note: str = "") -> str:
    """The first of these figures, and above it a list of all by their names.

    >>> from fedhpo.pages.figure import axis, figure
    >>> one = figure([], axis("x"), axis("y"))
    >>> "<select" in choice({"a": one}, "map"), choice({"a": one, "b": one}, "map").count("<option")
    (False, 2)
    """
    first, *others = figures.values()
    shown = drawn(first, name, note)
    if not others:
        return shown
    options = "".join(f'<option value="{i}">{text(one)}</option>' for i, one in enumerate(figures))
    data = "".join(
        f'<script type="application/json" class="other">{as_json(dict(one))}</script>'
        for one in figures.values()
    )
    field = f'<select class="axes" aria-label="axes">{options}</select>'
    return f'<div class="choice">{field}{shown}{data}</div>'
