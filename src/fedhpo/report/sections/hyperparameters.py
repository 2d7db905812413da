"""Each tuned hyperparameter against the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.pages.configs import flat, scale_of, tuned
from fedhpo.pages.figure import OWN, SCALE, WINNER, axis, drawn, figure
from fedhpo.pages.html import Section, how_to_read
from fedhpo.pages.plots import FEW, scored
from fedhpo.report.sections.curves import score_axis
from fedhpo.report.view import RunView

_ABOUT = how_to_read(
    "Look for where the dark points at the good end lie. Other hyperparameters differ between the "
    "points too, so a cloud without a shape says little: what mattered is told above, where there are "
    "enough trials.",
    "If the best points lie at the edge of a range, it may be worth widening it.",
)


def hyperparameters(view: RunView) -> Section | None:
    """One small figure for each hyperparameter; darker points were trained longer."""
    found = tuned(view)
    if not found or len(scored(view.result["trials"])) < FEW:
        return None
    small = "".join(
        drawn(against(view, name, table), f"against-{i}") for i, (name, table) in enumerate(found)
    )
    note = (
        "<p class=note>Each point is a trial with its last score; the darker, the longer it was trained.</p>"
    )
    return Section("Hyperparameters against the score", f"<div class=small>{small}</div>{note}{_ABOUT}")


def against(view: RunView, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """The score of every trial by the value of one hyperparameter."""
    order = sorted(view.result["trials"], key=lambda t: (t["trial"] == view.winner, t["trial"] == view.own))
    points = [
        (values[name], trial["score"], trial["rounds"], trial["trial"])
        for trial, values in ((trial, flat(trial["config"])) for trial in order)
        if trial["score"] is not None and name in values
    ]
    kind, marks = scale_of(table)
    traces = [_points(view, points, kind == "category")]
    return figure(
        traces,
        axis(name, type=kind, **marks),
        score_axis(view) | {"nticks": 6},
        height=230,
        showlegend=False,
        margin={"l": 48, "r": 8, "t": 8, "b": 40},
    )


def _points(view: RunView, points: list[tuple[Any, float, int, int]], listed: bool) -> dict[str, Any]:
    edge = [WINNER if t == view.winner else OWN if t == view.own else "#ffffff" for *_, t in points]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [str(value) if listed else value for value, *_ in points],
        "y": [score for _, score, _, _ in points],
        "text": [f"trial {t}, {rounds} rounds" for _, _, rounds, t in points],
        "hovertemplate": "%{text}<br>%{x}: %{y:.4f}<extra></extra>",
        "marker": {
            "size": [12 if t in (view.winner, view.own) else 8 for *_, t in points],
            "color": [rounds for _, _, rounds, _ in points],
            "colorscale": [list(stop) for stop in SCALE],
            "cmin": 0,
            "opacity": 1,
            "line": {
                "color": edge,
                "width": [2.5 if t in (view.winner, view.own) else 0.7 for *_, t in points],
            },
        },
    }
