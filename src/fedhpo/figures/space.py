"""Scores over the space: one hyperparameter, or all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.marks import FEW, dots, score_axis, span_of, statuses
from fedhpo.figures.view import Named, RunView
from fedhpo.pages.configs import flat, scale_of, unit
from fedhpo.pages.figure import MUTED, RAMP, RULE, SMALL, WINNER, Figure, axis, figure
from fedhpo.pages.html import text
from fedhpo.pages.numbers import number

_Trials = Sequence[Mapping[str, Any]]
_COLOURS = len(RAMP)


def slices(view: RunView, names: Sequence[str] | None = None) -> Figure:
    """The last score of each trial by each hyperparameter, side by side; darker was trained longer."""
    chosen = view.named(names)
    view.need(1, "slice")
    if not chosen:
        raise NothingToDrawError("slice needs a hyperparameter that was tuned")
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    for place, named in enumerate(chosen):
        suffix, width = "" if place == 0 else str(place + 1), 1 / len(chosen)
        domain = [place * width + (0.04 if place else 0), (place + 1) * width]
        axes[f"xaxis{suffix}"] = _axis(named) | {"domain": domain}
        traces.append(_points(view, named) | {"xaxis": f"x{suffix}"})
    first = axes.pop("xaxis")
    return figure(traces, first, score_axis(view), showlegend=False, **axes)


def slice_of(view: RunView, name: str) -> Figure:
    """The last score of each trial by the value of one hyperparameter, as a small figure."""
    view.need(1, "slice")
    [named] = view.named([name])
    y = score_axis(view, nticks=6)
    return figure([_points(view, named)], _axis(named), y, height=230, showlegend=False, margin=SMALL)


def _axis(named: Named) -> dict[str, Any]:
    kind, marks = scale_of(named[1])
    return axis(text(named[0]), type=kind, **marks)


def _points(view: RunView, named: Named) -> dict[str, Any]:
    name, table = named
    order = sorted(view.scored, key=lambda t: (t["trial"] == view.winner, t["trial"] == view.own))
    found = [(trial, flat(trial["config"])[name]) for trial in order if name in flat(trial["config"])]
    trials = [trial for trial, _ in found]
    listed = scale_of(table)[0] == "category"
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [str(value) if listed else value for _, value in found],
        "y": [trial["score"] for trial in trials],
        "text": [f"trial {trial['trial']}, {trial['rounds']} rounds" for trial in trials],
        "hovertemplate": "%{text}<br>%{x}: %{y:.4f}<extra></extra>",
        "marker": dots(view, trials, 8),
        "meta": statuses(trials),
    }


def parallel(view: RunView, names: Sequence[str] | None = None) -> Figure:
    """A line for each trial across hyperparameters and its last score; the better, the darker.

    Shares of the trials get a colour each, from the worst fifth to the best.
    """
    hyperparameters = view.named(names)
    view.need(FEW, "parallel")
    if not hyperparameters:
        raise NothingToDrawError("parallel needs a hyperparameter that was tuned")
    known = sorted(view.scored, key=lambda t: t["score"] if view.maximise else -t["score"])
    low, high = span_of([trial["score"] for trial in known])
    groups: list[list[Mapping[str, Any]]] = [[] for _ in range(_COLOURS)]
    for place, trial in enumerate(known):
        if trial["trial"] != view.winner:
            groups[place * _COLOURS // len(known)].append(trial)
    last = [trial for trial in known if trial["trial"] == view.winner]
    looks = [*((group, RAMP[i], 1.0 + 0.15 * i) for i, group in enumerate(groups)), (last, WINNER, 3.0)]
    traces = [
        _across(hyperparameters, group, (low, high), colour, width) for group, colour, width in looks if group
    ]
    titles = [*(name for name, _ in hyperparameters), view.metric]
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
        for i in range(len(titles))
    ]
    ticks = {"tickvals": list(range(len(titles))), "ticktext": [text(title) for title in titles]}
    x = axis("", range=[-0.3, len(titles) - 0.7], showgrid=False, showline=False, ticks="", **ticks)
    y = axis("", range=[-0.12, 1.12], visible=False)
    more = {"annotations": marks, "shapes": poles, "showlegend": False}
    return figure(traces, x, y, height=380, margin={"l": 12, "r": 12, "t": 8, "b": 40}, **more)


def _ends(table: Mapping[str, Any]) -> tuple[str, str]:
    options = table.get("values", table.get("choices"))
    low, high = (options[0], options[-1]) if options else (table["low"], table["high"])
    return number(low), number(high)


def _across(
    hyperparameters: Sequence[Named], group: _Trials, ends: tuple[float, float], colour: str, width: float
) -> dict[str, Any]:
    """One trace for all trials of a colour: hundreds of them would be slow to draw."""
    x: list[Any] = []
    y: list[Any] = []
    told: list[str] = []
    kept: list[str] = []
    low, high = ends
    for trial in group:
        values = flat(trial["config"])
        places = [unit(table, values.get(name)) for name, table in hyperparameters]
        x += [*range(len(places) + 1), None]
        y += [*places, (trial["score"] - low) / (high - low), None]
        who = f"trial {trial['trial']}"
        told += [f"{who}: {text(f'{name} {number(values.get(name))}')}" for name, _ in hyperparameters]
        told += [f"{who}: score {number(trial['score'])}", ""]
        kept += [str(trial["status"])] * (len(places) + 2)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "text": told,
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": colour, "width": width},
        "meta": {"status": kept},
    }
