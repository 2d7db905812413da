"""Learning curves: of all trials, and of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.marks import colour_of, role_of, score_axis
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import OTHER, WINNER, Figure, axis, figure, thinned
from fedhpo.pages.html import text
from fedhpo.pages.phrasing import config_in_words

#: Points of a figure's thin lines, all trials together: more make the page heavy and look the same.
_THIN, _POINTS = 12_000, 20_000
_Curves = Mapping[int, Sequence[tuple[int, float]]]


def curves(view: RunView) -> Figure:
    """Trials' evaluations as points, over thin lines for what the cohorts of their rounds saw.

    All trials but the winner and the user's own share one line with gaps: hundreds would be slow to draw.
    """
    points = [curve for some in (view.evaluated, view.in_rounds) for curve in some.values()]
    if not any(len(curve) > 1 for curve in points):
        raise NothingToDrawError("curves needs a trial that was scored twice")
    trials = sorted({*view.in_rounds, *view.evaluated}, key=lambda t: (t == view.winner, t == view.own, t))
    special = [trial for trial in trials if trial in (view.winner, view.own)]
    groups = [[trial for trial in trials if trial not in special], *([trial] for trial in special)]
    thin = [
        {
            **_line(view, group, view.in_rounds, _THIN // max(len(view.in_rounds), 1)),
            "mode": "lines",
            "opacity": 0.35,
            "line": {"color": colour_of(view, group[0]), "width": 1},
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for group in groups
        if any(trial in view.in_rounds for trial in group)
    ]
    dotted = [_points(view, group) for group in groups if any(trial in view.evaluated for trial in group)]
    x = axis("round of the trial", rangemode="tozero")
    return figure([*thin, *dotted], x, score_axis(view), height=420)


def _points(view: RunView, group: list[int]) -> dict[str, Any]:
    colour = colour_of(view, group[0])
    width = 1.2 if colour == OTHER else 2.5
    configs = {trial["trial"]: trial["config"] for trial in view.trials}
    about = ""
    if len(group) == 1:
        about = "<br>" + text(config_in_words(configs.get(group[0], {}))).replace(", ", "<br>")
    line = _line(view, group, view.evaluated, max(_POINTS // max(len(view.evaluated), 1), 3))
    return {
        **line,
        "mode": "lines+markers",
        "line": {"color": colour, "width": width},
        "marker": {"color": colour, "size": 4 + 1.5 * width},
        "hovertemplate": f"%{{text}}, round %{{x}}: %{{y:.4f}}{about}<extra></extra>",
    }


def _line(view: RunView, group: list[int], curves: _Curves, most: int) -> dict[str, Any]:
    """The curves of some trials as one line, with a gap between each two."""
    status = {trial["trial"]: str(trial["status"]) for trial in view.trials}
    name = role_of(view, group[0])
    x: list[int | None] = []
    y: list[float | None] = []
    told: list[str] = []
    kept: list[str] = []
    for trial in group:
        points = thinned(curves.get(trial, ()), max(most, 2))
        if x and points:
            x.append(None)
            y.append(None)
            told.append("")
            kept.append(status.get(trial, ""))
        x += [number for number, _ in points]
        y += [value for _, value in points]
        told += [f"trial {trial}"] * len(points)
        kept += [status.get(trial, "")] * len(points)
    found = {"type": "scatter", "x": x, "y": y, "name": name, "legendgroup": name, "meta": {"status": kept}}
    return found | ({"text": told} if curves is view.evaluated else {})


def trial_curve(view: RunView, trial: int) -> Figure:
    """The evaluations of one trial, over a thin line for what the cohorts of its rounds saw."""
    points, thin = view.evaluated.get(trial, []), view.in_rounds.get(trial, [])
    if len(points) < 2 and len(thin) < 2:
        raise NothingToDrawError(f"trial {trial} was not scored twice")
    lines = [(thin, "lines", 1, OTHER, "cohorts"), (points, "lines+markers", 2.5, WINNER, "evaluations")]
    traces = [
        {
            "type": "scatter",
            "mode": mode,
            "x": [at for at, _ in curve],
            "y": [value for _, value in curve],
            "name": name,
            "line": {"color": colour, "width": width},
            "hovertemplate": "round %{x}: %{y:.4f}<extra></extra>",
        }
        for curve, mode, width, colour, name in lines
        if curve
    ]
    return figure(traces, axis("round of the trial", rangemode="tozero"), score_axis(view))
