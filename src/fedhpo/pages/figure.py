"""Figures for plotly.js, in the report's own style: plain data, drawn in the reader's browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.pages.html import text

INK, MUTED, RULE = "#1f2933", "#66727f", "#e3e7eb"
WINNER, OWN, OTHER = "#0b7285", "#d9730d", "#b8c1ca"
#: For several runs, told apart also by those who see few colours (Okabe and Ito, 2008).
SEVERAL = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
#: From short to long trainings.
SCALE = ((0.0, "#cfd8df"), (1.0, "#0b7285"))
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
) -> dict[str, Any]:
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


def drawn(figure: Mapping[str, Any], name: str) -> str:
    """The figure as HTML: an empty element, and its data, which `draw.js` of the page draws into it.

    Data is not a program: the page's Content-Security-Policy allows only programs that fedhpo brings along.
    """
    from plotly.io.json import to_json_plotly

    data = to_json_plotly({"data": figure["data"], "layout": figure["layout"]})
    # No name from a run can end the element: JSON may write this character as a number.
    data = data.replace("<", "\\u003c")
    place = f'<div id="{text(name)}" style="width:100%;height:{figure["layout"]["height"]:g}px"></div>'
    return f'<figure>{place}<script type="application/json" class="figure">{data}</script></figure>'


def plotly_js() -> str:
    """The program that draws figures, to be put into the page."""
    from plotly.offline import get_plotlyjs

    program: str = get_plotlyjs()
    return program
