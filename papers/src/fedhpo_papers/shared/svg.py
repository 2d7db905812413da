"""Static figures as SVG: lines with bands, marks with bars, dots. Small, and nothing to run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedhpo.pages.figure import INK, MUTED, RULE, SEVERAL
from fedhpo.pages.html import text
from fedhpo.protocol.federation import Floats
from fedhpo_papers.shared.forest import ticks

_WIDTH, _HEIGHT = 350, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 10, 22, 38

_ERROR = "error in %"

#: x, and there a low, a middle and a high value: quartiles, or a mean and its spread.
Line = Sequence[tuple[float, float, float, float]]


def banded(x: float, values: Sequence[float]) -> tuple[float, float, float, float]:
    """A point of a `Line`: the mean, and one standard deviation (of a sample) below and above it.

    >>> banded(3, [1.0, 3.0, 5.0])
    (3, 1.0, 3.0, 5.0)
    """
    mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return x, mean - deviation, mean, mean + deviation


def colour(place: int) -> str:
    """The colour of a series."""
    return SEVERAL[place % len(SEVERAL)]


def looks(series: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Colour of each series, and whether it is dashed: "HB, noisy" after "HB, noiseless" has its colour.

    >>> list(looks(["HB, noiseless", "HB, noisy", "RS"]).values())
    [('#0072b2', False), ('#0072b2', True), ('#d55e00', False)]
    """
    kinds = list(dict.fromkeys(name.split(", ")[0] for name in series))
    found: dict[str, tuple[str, bool]] = {}
    for name in series:
        shade = colour(kinds.index(name.split(", ")[0]))
        found[name] = shade, shade in {known for known, _ in found.values()}
    return found


def lines(
    title: str,
    series: Mapping[str, Line],
    order: Sequence[str],
    x_title: str,
    y_title: str = _ERROR,
    *,
    log: bool = False,
) -> str:
    """Middles as lines over bands between what is low and high; `order` gives series their colours."""
    xs = sorted({x for line in series.values() for x, *_ in line})
    lows = [low for line in series.values() for _, low, *_ in line]
    highs = [high for line in series.values() for *_, high in line]
    across, up = _scale(xs[0], xs[-1], _LEFT, _WIDTH - _RIGHT, log), _vertical(min(lows), max(highs))
    marks = [(x, f"{x:g}") for x in (_thinned(xs) if log else ticks(xs[0], xs[-1]))]
    body = []
    for name, line in series.items():
        shade, dashed = looks(order)[name]
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        upper = [f"{across(x):.1f},{up(high):.1f}" for x, _, _, high in line]
        lower = [f"{across(x):.1f},{up(low):.1f}" for x, low, *_ in reversed(line)]
        middle = " ".join(f"{across(x):.1f},{up(median):.1f}" for x, _, median, _ in line)
        body.append(f'<polygon points="{" ".join(upper + lower)}" fill="{shade}" opacity=".13"/>')
        body.append(f'<polyline points="{middle}" fill="none" stroke="{shade}" stroke-width="1.8"{dash}/>')
    return _panel(title, body, across, up, marks, x_title, (min(lows), max(highs)), y_title)


def bars(
    title: str,
    series: Mapping[str, Mapping[str, tuple[float, float, float]]],
    x_title: str,
    y_title: str = _ERROR,
) -> str:
    """Middles as marks with bars between what is low and high, at places with names."""
    names = list(dict.fromkeys(name for line in series.values() for name in line))
    every = [quartiles for line in series.values() for quartiles in line.values()]
    low, high = min(q[0] for q in every), max(q[2] for q in every)
    across, up = _scale(-0.5, len(names) - 0.5, _LEFT, _WIDTH - _RIGHT, False), _vertical(low, high)
    body = []
    for place, line in enumerate(series.values()):
        for name, (first, median, third) in line.items():
            x = across(names.index(name)) + 10 * (place - (len(series) - 1) / 2)
            body.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{up(first):.1f}" y2="{up(third):.1f}" '
                f'stroke="{colour(place)}" stroke-width="5" opacity=".35"/>'
                f'<circle cx="{x:.1f}" cy="{up(median):.1f}" r="3.5" fill="{colour(place)}"/>'
            )
    return _panel(title, body, across, up, list(enumerate(names)), x_title, (low, high), y_title)


def columns(title: str, values: Sequence[float], x_title: str, y_title: str) -> str:
    """One column for each value, from 0."""
    high = max([*values, 0.0]) or 1.0
    across, up = _scale(-0.5, len(values) - 0.5, _LEFT, _WIDTH - _RIGHT, False), _vertical(0.0, high)
    width = 0.7 * (across(1) - across(0))
    body = [
        f'<rect x="{across(i) - width / 2:.1f}" y="{up(value):.1f}" width="{width:.1f}" '
        f'height="{up(0.0) - up(value):.1f}" fill="{colour(0)}" opacity=".7"/>'
        for i, value in enumerate(values)
    ]
    marks = [(x, f"{x:g}") for x in ticks(0, len(values) - 1)]
    return _panel(title, body, across, up, marks, x_title, (0.0, high), y_title)


def dots(title: str, points: Floats, x_title: str, y_title: str) -> str:
    """One dot for each row of x and y."""
    (left, low), (right, high) = points.min(axis=0), points.max(axis=0)
    across, up = _scale(left, right, _LEFT + 6, _WIDTH - _RIGHT, False), _vertical(low, high)
    body = [
        f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.6" fill="{colour(0)}" opacity=".6"/>'
        for x, y in points.tolist()
    ]
    marks = [(x, f"{x:g}") for x in ticks(left, right)]
    return _panel(title, body, across, up, marks, x_title, (low, high), y_title)


def legend(series: Sequence[str]) -> str:
    """Names beside their colours."""
    items = (
        f'<span><i style="border-top:3px {"dashed" if dashed else "solid"} {shade}"></i>{text(name)}</span>'
        for name, (shade, dashed) in looks(series).items()
    )
    return f"<p class=legend>{''.join(items)}</p>"


def _thinned(xs: Sequence[float]) -> list[float]:
    """Places on a log axis that are far enough apart to be read."""
    kept = [xs[0]]
    for x in xs[1:]:
        if x >= 1.7 * kept[-1]:
            kept.append(x)
    return kept


def _scale(low: float, high: float, begin: float, end: float, log: bool) -> Callable[[float], float]:
    if log:
        low, high = math.log(low), math.log(high)
    width = high - low or 1.0
    return lambda x: begin + (end - begin) * ((math.log(x) if log else x) - low) / width


def _vertical(low: float, high: float) -> Callable[[float], float]:
    return _scale(low, high, _HEIGHT - _BOTTOM, _TOP + 6, False)


def _panel(
    title: str,
    body: Sequence[str],
    across: Callable[[float], float],
    up: Callable[[float], float],
    marks: Sequence[tuple[float, str]],
    x_title: str,
    heights: tuple[float, float],
    y_title: str,
) -> str:
    """Axes around the body."""
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [f'<text x="{_LEFT}" y="13" font-weight="600" fill="{INK}">{text(title)}</text>']
    for y in ticks(*heights, 4):
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="{RULE}"/>')
        parts.append(f'<text x="{_LEFT - 5}" y="{up(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x, shown in marks:
        parts.append(f'<text x="{across(x):.1f}" y="{bottom + 14}" text-anchor="middle">{text(shown)}</text>')
    parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}" stroke="{MUTED}"/>')
    parts.append(
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{text(x_title)}</text>'
    )
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">{text(y_title)}</text>'
    )
    inner = "".join([*parts, *body])
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(title)}" font-size="11" '
        f'fill="{MUTED}">{inner}</svg>'
    )
