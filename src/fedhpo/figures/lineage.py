"""Who was copied from whom, when, and which hyperparameters each trial had over time (FedPop).

From the trials as a result lists them, so that a method can draw itself while its result is being made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.view import Named
from fedhpo.pages.configs import flat, scale_of
from fedhpo.pages.figure import OTHER, SMALL, WINNER, Figure, axis, figure
from fedhpo.pages.html import text

Trials = Sequence[Mapping[str, Any]]
#: A stretch of a trial's life under one config: trial, first round, last round, config, copied from.
Stretch = tuple[int, int, int, Mapping[str, Any], int | None]
#: The line that ends in the winner, youngest first: trial, from which round, to which.
Line = Sequence[tuple[int, int, int]]


def stretches(trials: Trials) -> list[Stretch]:
    """All trials' lives, in pieces."""
    found: list[Stretch] = []
    for trial in trials:
        path = trial.get("path") or [{"round": 0, "source": None, "config": trial["config"]}]
        ends = [*(step["left"] for step in path[1:]), trial["rounds"]]
        for step, end in zip(path, ends, strict=True):
            found.append(
                (trial["trial"], step["round"], max(end, step["round"]), step["config"], step["source"])
            )
    return found


def ancestry(trials: Trials, winner: int | None) -> list[tuple[int, int, int]]:
    """The line that ends in the winner, youngest first: trial, from which round, to which.

    >>> copied = {"round": 5, "source": 1, "source_step": 0, "left": 5, "config": {}}
    >>> a = [{"round": 0, "source": None, "config": {}}, copied]
    >>> trials = [{"trial": 0, "rounds": 9, "config": {}, "path": a}, {"trial": 1, "rounds": 9, "config": {}}]
    >>> ancestry(trials, 0)
    [(0, 5, 9), (1, 0, 5)]
    """
    paths = {trial["trial"]: trial.get("path") or [{"round": 0, "source": None}] for trial in trials}
    rounds = {trial["trial"]: trial["rounds"] for trial in trials}
    line: list[tuple[int, int, int]] = []
    trial = winner
    end = rounds.get(trial, 0) if trial is not None else 0
    place = -1
    while trial is not None:
        step = paths[trial][place]
        line.append((trial, step["round"], end))
        trial, end, place = step["source"], step["round"], step.get("source_step", 0)
    return line


def lineage(trials: Trials, winner: int | None) -> Figure:
    """A row for each trial, and an arrow for each copy; the winner's line in its colour."""
    if not any(trial.get("path") for trial in trials):
        raise NothingToDrawError(
            "lineage: no trial became a copy of another; in a population (FedPop) they do"
        )
    line, pieces = ancestry(trials, winner), stretches(trials)
    traces = []
    for trial, begin, end, _, source in pieces:
        if source is not None:
            mine = (trial, begin) in {(one, start) for one, start, _ in line}
            traces.append(_line([begin, begin], [source, trial], WINNER if mine else OTHER, 1.5))
        traces.append(_line([begin, end], [trial, trial], OTHER, 2))
    traces += [_line([begin, end], [trial, trial], WINNER, 3) for trial, begin, end in line]
    copies = [(begin, trial, source) for trial, begin, _, _, source in pieces if source is not None]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [begin for begin, _, _ in copies],
            "y": [trial for _, trial, _ in copies],
            "text": [
                f"round {begin}: trial {trial} copied trial {source}" for begin, trial, source in copies
            ],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {"color": "#ffffff", "size": 7, "line": {"color": WINNER, "width": 1.5}},
        }
    )
    y = axis("trial", dtick=max(1, len(trials) // 30), autorange="reversed")
    height = min(140 + 22 * len(trials), 900)
    return figure(traces, axis("round", rangemode="tozero"), y, height=height, showlegend=False)


def over_time(trials: Trials, winner: int | None, named: Named) -> Figure:
    """One hyperparameter of every trial by round."""
    name, settings = named
    kind, more = scale_of(settings)
    winning = {(trial, begin): end for trial, begin, end in ancestry(trials, winner)}
    traces = []
    for trial, begin, end, config, _ in stretches(trials):
        value = flat(config).get(name)
        if value is None:
            continue
        shown = str(value) if kind == "category" else value
        traces.append(_line([begin, end], [shown, shown], OTHER, 1.5))
        if (trial, begin) in winning:
            traces.append(_line([begin, winning[trial, begin]], [shown, shown], WINNER, 3))
    traces.sort(key=lambda trace: bool(trace["line"]["color"] == WINNER))
    y = axis(text(name), type=kind, **more)
    return figure(traces, axis("round"), y, height=230, showlegend=False, margin=SMALL)


def _line(x: list[Any], y: list[Any], colour: str, width: float) -> dict[str, Any]:
    line = {"color": colour, "width": width}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip"}
