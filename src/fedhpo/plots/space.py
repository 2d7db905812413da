"""Scores over the space: one hyperparameter, two, or all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.pages.configs import scale_of
from fedhpo.pages.figure import SCALE, axis, figure
from fedhpo.plots.importance import forest_of, importances
from fedhpo.plots.search import score_axis
from fedhpo.plots.story import Story

#: Points a side of a contour plot.
_GRID = 30


def _table(story: Story, name: str) -> Mapping[str, Any]:
    scope, _, key = name.partition(".")
    table: Mapping[str, Any] = story.facts["space"][scope][key]
    return table


def _axis(story: Story, name: str, **more: Any) -> dict[str, Any]:
    kind, marks = scale_of(_table(story, name))
    return axis(name, type=kind, **marks, **more)


def _values(story: Story, name: str) -> list[Any]:
    """A hyperparameter's value in each scored trial; None where it was not active."""
    listed = scale_of(_table(story, name))[0] == "category"
    found = [config.flat().get(name) for _, config, _ in story.scored]
    return [None if value is None else str(value) if listed else value for value in found]


def slice_(story: Story, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The last score of each trial by each hyperparameter, side by side; darker was trained longer."""
    story.need(1, "slice")
    chosen = story.names(names)
    scores = [score for _, _, score in story.scored]
    rounds = [trial["rounds"] for trial, _, _ in story.scored]
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    for place, name in enumerate(chosen):
        suffix = "" if place == 0 else str(place + 1)
        width = 1 / len(chosen)
        domain = [place * width + (0.04 if place else 0), (place + 1) * width]
        axes[f"xaxis{suffix}"] = _axis(story, name, domain=domain)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "xaxis": f"x{suffix}",
                "x": _values(story, name),
                "y": scores,
                "text": [f"trial {trial['trial']}, {trial['rounds']} rounds" for trial, _, _ in story.scored],
                "hovertemplate": "%{text}<br>%{x}: %{y:.4f}<extra></extra>",
                "marker": {"color": rounds, "colorscale": [list(s) for s in SCALE], "cmin": 0, "size": 8},
            }
        )
    first = axes.pop("xaxis")
    return figure(traces, first, score_axis(story), showlegend=False, **axes)


def parallel(story: Story, names: Sequence[str] | None = None) -> dict[str, Any]:
    """A line for each trial through its hyperparameters to its last score."""
    story.need(1, "parallel")
    scores = [score for _, _, score in story.scored]
    dimensions = [_dimension(story, name) for name in story.names(names)]
    dimensions.append({"label": story.metric, "values": scores})
    best = [list(stop) for stop in SCALE]
    trace = {
        "type": "parcoords",
        "dimensions": dimensions,
        "line": {"color": scores, "colorscale": best, "reversescale": not story.maximise},
    }
    margin = {"l": 60, "r": 60, "t": 60, "b": 30}
    return figure([trace], axis(""), axis(""), showlegend=False, margin=margin)


def _dimension(story: Story, name: str) -> dict[str, Any]:
    kind, marks = scale_of(_table(story, name))
    values = _values(story, name)
    if kind == "category":
        texts = [str(option) for option in marks["categoryarray"]]
        places = [None if value is None else texts.index(value) for value in values]
        return {"label": name, "values": places, "tickvals": list(range(len(texts))), "ticktext": texts}
    if kind == "log":
        logs = [None if value is None else float(np.log10(value)) for value in values]
        ticks = [float(np.log10(tick)) for tick in marks["tickvals"]]
        return {"label": name, "values": logs, "tickvals": ticks, "ticktext": marks["ticktext"]}
    return {"label": name, "values": values}


def contour(story: Story, first: str | None = None, second: str | None = None) -> dict[str, Any]:
    """The score that a forest expects over two hyperparameters, the others as in the trials; and the trials.

    By default the two that matter most.
    """
    names = list(importances(story))
    if len(names) < 2:
        raise InputError(f"contour needs two hyperparameters, the space has {len(names)}")
    x, y = story.names([first or names[0], second or next(name for name in names if name != first)])
    forest, points = forest_of(story)
    units = (np.arange(_GRID) + 0.5) / _GRID
    columns = [story.space.names.index(name) for name in (x, y)]
    expected = np.empty((_GRID, _GRID))
    for row, v in enumerate(units):
        moved = np.repeat(points[None], _GRID, axis=0)
        moved[:, :, columns[0]], moved[:, :, columns[1]] = units[:, None], v
        expected[row] = forest.predict(moved.reshape(-1, points.shape[1])).reshape(_GRID, -1).mean(axis=1)
    surface = {
        "type": "contour",
        "x": [_at(story, x, unit) for unit in units],
        "y": [_at(story, y, unit) for unit in units],
        "z": expected.round(6).tolist(),
        "colorscale": [list(stop) for stop in SCALE],
        "reversescale": not story.maximise,
        "colorbar": {"thickness": 10, "title": {"text": story.metric}},
        "hovertemplate": "%{x}, %{y}: %{z:.4f}<extra></extra>",
    }
    trials = {
        "type": "scatter",
        "mode": "markers",
        "x": _values(story, x),
        "y": _values(story, y),
        "text": [f"trial {trial['trial']}: {score:.4f}" for trial, _, score in story.scored],
        "marker": {"color": "#ffffff", "size": 7, "line": {"color": "#1f2933", "width": 1}},
        "hovertemplate": "%{text}<extra></extra>",
    }
    return figure([surface, trials], _axis(story, x), _axis(story, y), showlegend=False, height=440)


def _at(story: Story, name: str, unit: float) -> Any:
    """A hyperparameter's value at a place of the unit interval."""
    hyperparameter = story.space.hyperparameters[name]
    value = hyperparameter.from_unit(unit)
    return str(value) if scale_of(_table(story, name))[0] == "category" else value
