"""How trials look in all figures: the winner, the user's own config, and the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.figures.view import RunView
from fedhpo.pages.figure import OTHER, OWN, SCALE, WINNER, axis
from fedhpo.protocol.objective import scored_as

#: Fewer scored trials than these tell nothing in a plot of many.
FEW = 3


def score_axis(view: RunView, **more: Any) -> dict[str, Any]:
    """The axis of the score; losses of failing trials are far away, hence its log scale."""
    over = "" if view.plain else ", mean over clients"
    title = f"{scored_as(view.result['objective'])} {view.metric}{over}"
    return axis(title, type="log" if view.metric == "loss" else "linear", **more)


def colour_of(view: RunView, trial: int) -> str:
    """The colour of a trial's line."""
    return WINNER if trial == view.winner else OWN if trial == view.own else OTHER


def role_of(view: RunView, trial: int) -> str:
    """What a trial is called in a legend."""
    if trial == view.winner:
        name = "winner" if view.winner_is_used else "tuned, no improvement"
        return "winner, your config" if trial == view.own else name
    return "your config (trial 0)" if trial == view.own else "other trials"


def dots(view: RunView, trials: Sequence[Mapping[str, Any]], size: float = 7) -> dict[str, Any]:
    """Marks of trials: darker where trained longer; winner and own config larger, and ringed."""
    first = (view.winner, view.own)
    numbers = [int(trial["trial"]) for trial in trials]
    return {
        "size": [size + 4 if number in first else size for number in numbers],
        "color": [trial["rounds"] for trial in trials],
        "colorscale": [list(stop) for stop in SCALE],
        "cmin": 0,
        "opacity": 1,
        "line": {
            "color": [colour_of(view, number) if number in first else "#ffffff" for number in numbers],
            "width": [2.5 if number in first else 0.7 for number in numbers],
        },
    }


def statuses(trials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a page filters points by: the status of each one's trial."""
    return {"status": [str(trial["status"]) for trial in trials]}


def span_of(values: Sequence[float]) -> tuple[float, float]:
    """The range of finite values, a little wider where all are the same.

    >>> span_of([0.25, float("nan"), 0.75]), span_of([1.0, 1.0])
    ((0.25, 0.75), (0.5, 1.5))
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
