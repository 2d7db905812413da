"""What two hyperparameters do together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fedhpo.core.errors import InputError, NothingToDrawError
from fedhpo.figures.importance import by_importance, sample_of, tame
from fedhpo.figures.marks import span_of
from fedhpo.figures.view import Named, RunView
from fedhpo.pages.configs import unit
from fedhpo.pages.figure import SCALE, SMALL, Figure, axis, figure
from fedhpo.pages.html import text
from fedhpo.pages.numbers import number
from fedhpo.surrogates import importance as measure


def contour(view: RunView, first: str | None = None, second: str | None = None) -> Figure:
    """The score that a forest expects over two hyperparameters, and the trials; a star leads the run.

    By default they are the two that explain most. Forest, trials and colours are those of the round at which
    most trials were scored.
    """
    if len(view.tuned) < 2:
        raise NothingToDrawError(f"contour needs two hyperparameters, the space has {len(view.tuned)}")
    across, up = _axes(view, first, second)
    sample = sample_of(view)
    if len(sample.trials) < measure.LEAST:
        raise NothingToDrawError(
            f"contour needs at least {measure.LEAST} trials with a score after equally many rounds, "
            f"the run has {len(sample.trials)}"
        )
    columns = [list(sample.names).index(name) for name in (across[0], up[0])]
    scores = tame(sample.scores, view.maximise)
    grid = measure.landscape(sample.points, scores, *columns)
    low, high = span_of(scores.tolist())
    shown = {"colorscale": [list(stop) for stop in SCALE], "reversescale": not view.maximise}
    ground = {
        "type": "contour",
        "x0": 0,
        "dx": 1 / (len(grid[0]) - 1),
        "y0": 0,
        "dy": 1 / (len(grid) - 1),
        "z": grid.round(6).tolist(),
        **shown,
        "zmin": low,
        "zmax": high,
        "contours": {"coloring": "heatmap", "start": low, "end": high, "size": (high - low) / 12},
        "line": {"width": 0.5, "color": "#ffffff"},
        "colorbar": {"thickness": 10, "outlinewidth": 0, "title": _bar(view, sample.round)},
        "hoverinfo": "skip",
    }
    kept = [
        (trial, x, y, score)
        for trial, (x, y), score in zip(
            sample.trials, sample.points[:, columns].tolist(), sample.scores.tolist(), strict=True
        )
        if math.isfinite(x) and math.isfinite(y)
    ]
    leads = [trial["trial"] == view.winner for trial, *_ in kept]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [x for _, x, _, _ in kept],
        "y": [y for *_, y, _ in kept],
        "text": [f"trial {trial['trial']}: {number(score)}" for trial, *_, score in kept],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "size": [14 if lead else 7 for lead in leads],
            "symbol": ["star" if lead else "circle" for lead in leads],
            "color": [score for *_, score in kept],
            **shown,
            "cmin": low,
            "cmax": high,
            "line": {"color": "#1f2933", "width": 1},
        },
        "meta": {"status": [str(trial["status"]) for trial, *_ in kept]},
    }
    x_axis, y_axis = (axis(text(name), **unit_ticks(table), showgrid=False) for name, table in (across, up))
    return figure([ground, dots], x_axis, y_axis, height=320, showlegend=False, margin=SMALL)


def _bar(view: RunView, at: int) -> dict[str, Any]:
    return {"text": f"{text(view.metric)},<br>round {at}", "font": {"size": 11}}


def _axes(view: RunView, first: str | None, second: str | None) -> tuple[Named, Named]:
    if first is not None and first == second:
        raise InputError(f"contour needs two hyperparameters, both are {first}")
    given = [name for name in (first, second) if name is not None]
    view.named(given)  # refuses unknown names
    rest = [name for name in by_importance(view) if name not in given] if len(given) < 2 else []
    names = [first or rest.pop(0), second or rest.pop(0)]
    across, up = view.named(names)
    return across, up


def unit_ticks(table: Mapping[str, Any]) -> dict[str, Any]:
    """Where values lie on an axis from 0 to 1, in the hyperparameter's own scale."""
    options = table.get("values", table.get("choices"))
    if options:
        values: list[Any] = list(options)
    elif table.get("log") and not table.get("complement"):
        low, high = math.ceil(math.log10(table["low"]) - 1e-9), math.floor(math.log10(table["high"]) + 1e-9)
        values = [10.0**power for power in range(low, high + 1)] or [table["low"], table["high"]]
    else:
        values = [table["low"] + (table["high"] - table["low"]) * part / 4 for part in range(5)]
    return {
        "range": [-0.04, 1.04],
        "tickvals": [unit(table, value) for value in values],
        "ticktext": [text(number(value)) for value in values],
    }
