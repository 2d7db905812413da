"""What several runs gained over the user's own config."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import MUTED, SEVERAL, Figure, axis, figure
from fedhpo.pages.html import text


def gains(views: Sequence[RunView]) -> Figure:
    """The gain of each run over the user's own config, with two standard errors."""
    known = [(i, view, view.result["gain"]) for i, view in enumerate(views) if view.result["gain"]]
    known = [(i, view, gain) for i, view, gain in known if gain["value"] is not None]
    if not known:
        raise NothingToDrawError("gains: no run was compared with the user's own config")
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [gain["value"]],
            "y": [text(view.name)],
            "error_x": {"array": [2 * (gain["standard_error"] or 0)], "thickness": 2, "width": 5},
            "marker": {"size": 10, "color": SEVERAL[i % len(SEVERAL)]},
            "hovertemplate": "%{y}: %{x:+.4f}<extra></extra>",
        }
        for i, view, gain in known
    ]
    zero = {"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "yref": "paper"}
    line = {**zero, "line": {"color": MUTED, "width": 1, "dash": "dot"}}
    y = axis("", autorange="reversed", ticks="")
    x = axis(f"gain in {views[0].metric}")
    return figure(traces, x, y, height=110 + 32 * len(known), showlegend=False, shapes=[line])
