"""Figures for plotly.js, in the report's own style: plain data, drawn in the reader's browser."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, TypedDict

from fedhpo.pages.html import text


class Figure(TypedDict):
    """A figure as plotly.js takes it."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]


INK, MUTED, RULE = "#1f2933", "#66727f", "#e3e7eb"
WINNER, OWN, OTHER = "#0b7285", "#d9730d", "#b8c1ca"
#: For several runs, told apart also by those who see few colours (Okabe and Ito, 2008).
SEVERAL = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
#: The margins of a small figure.
SMALL = {"l": 48, "r": 8, "t": 8, "b": 40}
#: From short to long trainings.
SCALE = ((0.0, "#cfd8df"), (1.0, "#0b7285"))
#: From the worst fifth of the trials to the best.
RAMP = ("#d5dde3", "#a9c6cf", "#76abb9", "#3f8ea1", "#0b7285")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_AXIS = {
    "gridcolor": RULE,
    "linecolor": "#9aa5b1",
    "showline": True,
    "ticks": "outside",
    "tickcolor": "#9aa5b1",
    "ticklen": 4,
    "zeroline": False,
    "automargin": True,
    "title": {"font": {"size": 12, "color": MUTED}, "standoff": 8},
}


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title."""
    return _AXIS | {"title": {**_AXIS["title"], "text": title}} | more  # type: ignore[dict-item]


def figure(
    traces: Sequence[Mapping[str, Any]], x: Mapping[str, Any], y: Mapping[str, Any], **layout: Any
) -> Figure:
    """A figure: traces, two axes, and what differs from the usual layout."""
    usual = {
        "xaxis": dict(x),
        "yaxis": dict(y),
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 12, "t": 28, "b": 44},
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": RULE, "font": {"family": FONT, "color": INK}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        "showlegend": True,
        "height": 360,
    }
    return {"data": [dict(trace) for trace in traces], "layout": usual | layout}


def thinned(points: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the points, evenly, the first and the last among them.

    >>> thinned([0, 1, 2, 3, 4, 5, 6], 4)
    [0, 2, 4, 6]
    """
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / max(most - 1, 1)
    return [points[round(place * step)] for place in range(max(most, 2))]


def as_json(value: Any) -> str:
    """JSON for the browser: six digits of each number, more than a screen shows; null for what is not finite.

    >>> as_json({"x": [1 / 3, float("nan")], "name": "</script>"})
    '{"x":[0.333333,null],"name":"\\\\u003c/script>"}'
    """
    told = json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False)
    # No name from a run can end the element: JSON may write this character as a number.
    return told.replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        short = float(f"{value:.6g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return _plain(value.tolist()) if hasattr(value, "tolist") else value


def drawn(figure: Figure, name: str, note: str = "") -> str:
    """The figure as HTML: an empty element, its data, which `draw.js` draws into it, and one sentence on it.

    Data is not a program: the page's Content-Security-Policy allows only programs that fedhpo brings along.
    """
    data = as_json({"data": figure["data"], "layout": figure["layout"]})
    style = f"width:100%;height:{figure['layout']['height']:g}px"
    place = f'<div id="{text(name)}" style="{style}"></div>'
    told = f"<figcaption>{text(note)}</figcaption>" if note else ""
    return f'<figure>{place}<script type="application/json" class="figure">{data}</script>{told}</figure>'


def plotly_js() -> str:
    """The program that draws figures: plotly.js with what two axes need, to be put into the page."""
    return (files("fedhpo.pages.vendor") / "plotly-cartesian.min.js").read_text(encoding="utf-8")
