"""How the search went: trials in order, the leading one against what was spent, and all scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.incumbents import Incumbent
from fedhpo.figures.marks import FEW, dots, score_axis, statuses
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import SEVERAL, WINNER, Figure, axis, figure
from fedhpo.pages.html import text

#: What can be spent: the columns of the history, how much of it makes one of the axis, and its title.
SPENT = {
    "rounds": (("rounds",), 1.0, "rounds spent over all trials", "rounds spent"),
    "bytes": (("bytes_down", "bytes_up"), 1e6, "MB sent, both ways", "MB"),
    "seconds": (("seconds",), 60.0, "minutes of the run", "minutes"),
}


def history(view: RunView) -> Figure:
    """The last score of every trial in the order in which they were begun, and the best one so far."""
    view.need(FEW, "history")
    known = view.scored
    better = max if view.maximise else min
    best: list[float] = []
    for trial in known:
        best.append(better(best[-1], trial["score"]) if best else trial["score"])
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
        "marker": dots(view, known),
        "meta": statuses(known),
    }
    return figure([line, points], axis("trial"), score_axis(view), height=300)


def leading(views: Sequence[RunView], by: str = "rounds") -> Figure:
    """The score of the leading trial against what was spent; one line a run. Where it fell, a cross."""
    names, unit, title, words = SPENT[by]
    traces: list[dict[str, Any]] = []
    for i, view in enumerate(views):
        found = view.incumbents_by(*names)
        if len(found) < 2 and len(views) == 1:
            raise NothingToDrawError("leading needs scores at two moments of the search")
        colour = SEVERAL[i % len(SEVERAL)] if len(views) > 1 else WINNER
        name = text(view.name) if len(views) > 1 else "leading trial"
        line = {"type": "scatter", "name": name, "legendgroup": name}
        traces.append(
            {
                **line,
                **_places(found, unit),
                "mode": "lines+markers",
                "line": {"shape": "hv", "color": colour, "width": 2},
                "marker": {"size": 6},
                "hovertemplate": f"%{{x:.4g}} {words}: %{{y:.4f}}<br>%{{text}}<extra></extra>",
            }
        )
        fallen = [one for one in found if one.fell]
        if fallen:
            traces.append(
                {
                    **line,
                    **_places(fallen, unit),
                    "text": [text(one.fell) for one in fallen],
                    "mode": "markers",
                    "name": f"{name}: worse than before",
                    "marker": {"size": 10, "symbol": "x", "color": colour},
                    "showlegend": len(views) == 1,
                    "hovertemplate": f"%{{x:.4g}} {words}: %{{y:.4f}}, worse:<br>%{{text}}<extra></extra>",
                }
            )
    return figure(traces, axis(title, rangemode="tozero"), score_axis(views[0]), height=300)


def _places(found: Sequence[Incumbent], unit: float) -> dict[str, Any]:
    return {
        "x": [one.spent / unit if unit != 1 else one.spent for one in found],
        "y": [one.value for one in found],
        "text": [f"trial {one.trial} at its round {one.round}" for one in found],
    }


def edf(view: RunView) -> Figure:
    """The share of trials whose last score is at most so much."""
    view.need(1, "edf")
    values = sorted(float(trial["score"]) for trial in view.scored)
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": values,
        "y": [(place + 1) / len(values) for place in range(len(values))],
        "line": {"color": WINNER, "width": 2.5, "shape": "hv"},
        "hovertemplate": "%{y:.0%} of trials have at most %{x:.4f}<extra></extra>",
    }
    x = axis(f"last validation {view.metric} of a trial")
    return figure([trace], x, axis("share of trials", range=[0, 1.02], tickformat=".0%"), showlegend=False)
