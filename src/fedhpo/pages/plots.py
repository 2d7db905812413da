"""Figures of a search from plain data: trials as result.json lists them, hyperparameters as a study does.

Each function returns a figure, as `fedhpo.pages.figure.figure` makes it, or None where there is too little
to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.pages.configs import flat, unit
from fedhpo.pages.figure import MUTED, OTHER, OWN, RAMP, RULE, SCALE, WINNER, axis, figure
from fedhpo.pages.html import text
from fedhpo.pages.numbers import number

#: A hyperparameter by its full name, and its table in the study.
Named = tuple[str, Mapping[str, Any]]
Trials = Sequence[Mapping[str, Any]]

#: Fewer scored trials than these tell nothing in a plot of many.
FEW = 3
_COLOURS = len(RAMP)
_MARGIN = {"l": 48, "r": 8, "t": 8, "b": 40}


def scored(trials: Trials) -> list[Mapping[str, Any]]:
    """The trials that have a score."""
    return [trial for trial in trials if trial["score"] is not None and math.isfinite(trial["score"])]


def history(
    trials: Trials, metric: str, *, maximise: bool, winner: int | None = None, own: int | None = None
) -> dict[str, Any] | None:
    """The last score of every trial in the order in which they were begun, and the best one so far."""
    known = scored(trials)
    if len(known) < FEW:
        return None
    best: list[float] = []
    for trial in known:
        better = max if maximise else min
        best.append(trial["score"] if not best else better(best[-1], trial["score"]))
    numbers = [trial["trial"] for trial in known]
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": numbers,
        "y": best,
        "name": "best so far",
        "line": {"shape": "hv", "color": WINNER, "width": 2},
        "hoverinfo": "skip",
    }
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": numbers,
        "y": [trial["score"] for trial in known],
        "name": "trial",
        "text": [f"trial {trial['trial']}, {trial['rounds']} rounds" for trial in known],
        "hovertemplate": "%{text}: %{y:.4f}<extra></extra>",
        "marker": _marks(known, winner, own),
    }
    return figure([line, points], axis("trial"), _score_axis(metric), height=300)


def _marks(known: Trials, winner: int | None, own: int | None) -> dict[str, Any]:
    """Darker where trained longer; the winner and the user's own config larger, and ringed."""
    first = (winner, own)
    colour = {winner: WINNER, own: OWN}
    return {
        "size": [11 if t["trial"] in first else 7 for t in known],
        "color": [t["rounds"] for t in known],
        "colorscale": [list(stop) for stop in SCALE],
        "cmin": 0,
        "opacity": 1,
        "line": {
            "color": [colour[t["trial"]] if t["trial"] in first else "#ffffff" for t in known],
            "width": [2.5 if t["trial"] in first else 0.7 for t in known],
        },
    }


def _score_axis(metric: str) -> dict[str, Any]:
    """Losses of failing trials are far away, hence a log scale."""
    return axis(f"validation {metric}", type="log" if metric == "loss" else "linear")


def parallel(
    hyperparameters: Sequence[Named],
    trials: Trials,
    metric: str,
    *,
    maximise: bool,
    winner: int | None = None,
) -> dict[str, Any] | None:
    """A line for each trial across all hyperparameters and the score; the better, the darker.

    Shares of the trials get a colour each, from the worst fifth to the best.
    """
    known = sorted(scored(trials), key=lambda trial: trial["score"] if maximise else -trial["score"])
    if len(known) < FEW or not hyperparameters:
        return None
    values = [trial["score"] for trial in known]
    low, high = min(values), max(values)
    groups: list[list[Mapping[str, Any]]] = [[] for _ in range(_COLOURS)]
    for place, trial in enumerate(known):
        if trial["trial"] != winner:
            groups[place * _COLOURS // len(known)].append(trial)
    last = [trial for trial in known if trial["trial"] == winner]
    looks = [*((group, RAMP[i], 1.0 + 0.15 * i) for i, group in enumerate(groups)), (last, WINNER, 3.0)]
    traces = [
        _across(hyperparameters, group, (low, high), colour, width) for group, colour, width in looks if group
    ]
    names = [*(name for name, _ in hyperparameters), metric]
    ends = [*(_ends(table) for _, table in hyperparameters), (number(low), number(high))]
    marks = [
        {
            "x": place,
            "y": at,
            "yshift": shift,
            "text": text(end),
            "showarrow": False,
            "font": {"size": 11, "color": MUTED},
        }
        for place, pair in enumerate(ends)
        for end, at, shift in zip(pair, (0, 1), (-11, 11), strict=True)
    ]
    poles = [
        {"type": "line", "x0": i, "x1": i, "y0": 0, "y1": 1, "line": {"color": RULE, "width": 1.5}}
        for i in range(len(names))
    ]
    ticks = {"tickvals": list(range(len(names))), "ticktext": [text(name) for name in names]}
    x = axis("", range=[-0.3, len(names) - 0.7], showgrid=False, showline=False, ticks="", **ticks)
    y = axis("", range=[-0.12, 1.12], visible=False)
    more = {"annotations": marks, "shapes": poles, "showlegend": False}
    return figure(traces, x, y, height=380, margin={"l": 12, "r": 12, "t": 8, "b": 40}, **more)


def _ends(table: Mapping[str, Any]) -> tuple[str, str]:
    options = table.get("values", table.get("choices"))
    low, high = (options[0], options[-1]) if options else (table["low"], table["high"])
    return number(low), number(high)


def _across(
    hyperparameters: Sequence[Named], group: Trials, ends: tuple[float, float], colour: str, width: float
) -> dict[str, Any]:
    """One trace for all trials of a colour: hundreds of them would be slow to draw."""
    x: list[Any] = []
    y: list[Any] = []
    told: list[str] = []
    low, high = ends
    for trial in group:
        values = flat(trial["config"])
        places = [unit(table, values.get(name)) for name, table in hyperparameters]
        end = (trial["score"] - low) / (high - low) if high > low else 0.5
        x += [*range(len(places) + 1), None]
        y += [*places, end, None]
        who = f"trial {trial['trial']}"
        told += [f"{who}: {text(f'{name} {number(values.get(name))}')}" for name, _ in hyperparameters]
        told += [f"{who}: score {number(trial['score'])}", ""]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "text": told,
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": colour, "width": width},
    }


def importance_bars(shares: Mapping[str, float]) -> dict[str, Any]:
    """How much of the differences between trials each hyperparameter explains, the most important on top."""
    order = sorted(shares, key=lambda name: shares[name])
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [100 * shares[name] for name in order],
        "y": [text(name) for name in order],
        "marker": {"color": WINNER},
        "hovertemplate": "%{y}: %{x:.0f}%<extra></extra>",
    }
    x = axis("share in %", rangemode="tozero")
    height = 96 + 28 * len(order)
    return figure([bars], x, axis("", ticks=""), height=height, showlegend=False, bargap=0.45, margin=_MARGIN)


def landscape(
    across: Named, up: Named, grid: Sequence[Sequence[float]], trials: Trials, metric: str, winner: int | None
) -> dict[str, Any]:
    """What a model predicts over two hyperparameters (rows of `grid` from low to high), and the trials."""
    ground = {
        "type": "contour",
        "x0": 0,
        "dx": 1 / (len(grid[0]) - 1),
        "y0": 0,
        "dy": 1 / (len(grid) - 1),
        "z": [list(row) for row in grid],
        "colorscale": [list(stop) for stop in SCALE],
        "contours": {"coloring": "heatmap"},
        "line": {"width": 0.5, "color": "#ffffff"},
        "colorbar": {"thickness": 10, "outlinewidth": 0},
        "hoverinfo": "skip",
    }
    known = scored(trials)
    kept = []
    for trial in known:
        x, y = (unit(table, flat(trial["config"]).get(name)) for name, table in (across, up))
        if x is not None and y is not None:
            kept.append((trial, x, y))
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [x for _, x, _ in kept],
        "y": [y for *_, y in kept],
        "text": [f"trial {trial['trial']}: {number(trial['score'])}" for trial, *_ in kept],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "size": [12 if trial["trial"] == winner else 6 for trial, *_ in kept],
            "symbol": ["star" if trial["trial"] == winner else "circle" for trial, *_ in kept],
            "color": "#ffffff",
            "line": {"color": "#1f2933", "width": 1.2},
        },
    }
    x_axis, y_axis = (axis(text(name), **_unit_ticks(table), showgrid=False) for name, table in (across, up))
    return figure([ground, dots], x_axis, y_axis, height=320, showlegend=False, margin=_MARGIN)


def _unit_ticks(table: Mapping[str, Any]) -> dict[str, Any]:
    """Where values lie on an axis from 0 to 1."""
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


def spread(named: Mapping[str, Sequence[float]], metric: str) -> dict[str, Any]:
    """Scores of clients, sorted from the worst to the best, a line for each of some configs."""
    colours = (WINNER, OWN, OTHER)
    traces = []
    for (name, values), colour in zip(named.items(), colours, strict=False):
        ordered = sorted(values)
        share = [100 * (place + 1) / len(ordered) for place in range(len(ordered))]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(ordered) <= 60 else "lines",
                "x": share,
                "y": ordered,
                "name": text(name),
                "line": {"color": colour, "width": 2},
                "marker": {"size": 5},
                "hovertemplate": "%{x:.0f}% of clients: at most %{y:.4f}<extra></extra>",
            }
        )
    return figure(traces, axis("share of clients in %"), _score_axis(metric), height=300)
