"""All trials with their configs and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.figures.view import RunView
from fedhpo.pages.configs import flat
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import number, score

#: From so many rows on a table can be searched.
_MANY = 8


def trials(view: RunView) -> Section | None:
    """The table: the winner, the user's own config, then the others, the longest trained first."""
    first = (view.winner, view.own)
    rows = sorted(
        view.result["trials"],
        key=lambda t: (first.index(t["trial"]) if t["trial"] in first else 2, *_rank(view, t)),
    )
    if not rows:
        return None
    names = list(dict.fromkeys(name for row in rows for name in flat(row["config"])))
    # Where all clients were asked there is no error of drawing them.
    errors = ["standard error"] if any(row["standard_error"] for row in rows) else []
    columns = ["trial", "", "status", "rounds", view.metric, *errors, *names]
    cells = [_cells(view, row, bool(errors), names) for row in rows]
    marks = ["winner" if r["trial"] == view.winner else "own" if r["trial"] == view.own else "" for r in rows]
    numeric = ["trial", "rounds", view.metric, "standard error", *names]
    shown = table(columns, cells, numeric=numeric, marks=marks, filtered=len(rows) >= _MANY, folds=5)
    return Section("Trials", _statuses(rows) + shown)


def _statuses(rows: Sequence[Mapping[str, Any]]) -> str:
    """A list that keeps trials of one status, here and in all figures; nothing where all have the same."""
    found = list(dict.fromkeys(str(row["status"]) for row in rows))
    if len(found) < 2:
        return ""
    options = "".join(f'<option value="{text(one)}">{text(one)} trials only</option>' for one in found)
    every = '<option value="">all trials</option>'
    return f'<p><select class="statuses" aria-label="status of trials">{every}{options}</select></p>'


def _rank(view: RunView, trial: Mapping[str, Any]) -> tuple[float, float, int]:
    value = trial["score"]
    worst = float("inf")
    return -trial["rounds"], worst if value is None else -value if view.maximise else value, trial["trial"]


def _cells(view: RunView, trial: Mapping[str, Any], errors: bool, names: list[str]) -> list[Cell]:
    role = " ".join(
        word
        for word, holds in (
            ("winner" if view.winner_is_used else "tuned", trial["trial"] == view.winner),
            ("your config", trial["trial"] == view.own),
        )
        if holds
    )
    status = f"{trial['status']}: {trial['reason']}" if trial["reason"] else trial["status"]
    values = flat(trial["config"])
    return [
        Cell(str(trial["trial"]), trial["trial"]),
        Cell(role, style="role"),
        Cell(status),
        Cell(str(trial["rounds"]), trial["rounds"]),
        Cell(score(trial["score"]), _sortable(trial["score"])),
        *([Cell(score(trial["standard_error"]), _sortable(trial["standard_error"]))] if errors else []),
        *(Cell(number(values.get(name)), _sortable(values.get(name))) for name in names),
    ]


def _sortable(value: Any) -> float | str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return "" if value is None else str(value)
