"""A forest plot as SVG: for every case a dot, an interval and what the paper reports; a line at zero."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedhpo.pages.figure import INK, MUTED, RULE, SEVERAL
from fedhpo.pages.html import text

_WIDTH, _ROW, _TOP, _BOTTOM = 360, 19, 6, 20
#: Pixels of a letter, about, at the size of the names.
_LETTER = 6.3
_LONGEST = 26


@dataclass(frozen=True)
class Estimate:
    """A difference in one case: its value, its standard error or interval, if known, the paper's figure."""

    name: str
    value: float
    error: float | None = None
    paper: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The interval, or two standard errors below and above.

        >>> Estimate("a", 1.0, 0.25).ends, Estimate("a", 1.0, interval=(0.25, 2.0)).ends
        ((0.5, 1.5), (0.25, 2.0))
        """
        if self.interval is not None:
            return self.interval
        reach = 2 * (self.error or 0.0)
        return self.value - reach, self.value + reach

    @property
    def side(self) -> int:
        """1 if it is above zero beyond doubt, -1 below, 0 if it cannot be told.

        >>> Estimate("a", 1.0, 0.25).side, Estimate("a", -1.0, 0.6).side
        (1, 0)
        """
        if self.error is None and self.interval is None:
            return 0
        low, high = self.ends
        return 1 if low > 0 else -1 if high < 0 else 0


def forest(estimates: Sequence[Estimate], title: str = "") -> str:
    """The plot; it is as wide as it may be, and has its numbers as text for those who cannot see it.

    >>> forest([Estimate("mnist", 1.0, 0.25, paper=2.0)]).count("<circle")
    1
    """
    names = max(len(_short(one.name)) for one in estimates)
    left, right = 8 + max(names, 1) * _LETTER, _WIDTH - 12
    height = _TOP + _ROW * len(estimates) + _BOTTOM
    low, high = _range(estimates)
    parts = []

    def across(value: float) -> float:
        return left + (right - left) * (min(max(value, low), high) - low) / (high - low)

    bottom = _TOP + _ROW * len(estimates)
    for tick in ticks(low, high, 4):
        x = f'x1="{across(tick):.1f}" x2="{across(tick):.1f}"'
        stroke = f'stroke="{MUTED}" stroke-dasharray="3 2"' if tick == 0 else f'stroke="{RULE}"'
        parts.append(f'<line {x} y1="{_TOP - 4}" y2="{bottom}" {stroke}/>')
        parts.append(
            f'<text x="{across(tick):.1f}" y="{bottom + 14}" text-anchor="middle">{_signed(tick)}</text>'
        )
    for place, one in enumerate(estimates):
        parts += _row(one, _TOP + _ROW * (place + 0.5), left, across, (low, high))
    said = "; ".join(_said(one) for one in estimates)
    return (
        f'<svg class="forest" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{text(title or said)}" '
        f'font-size="11" fill="{MUTED}"><title>{text(said)}</title>{"".join(parts)}</svg>'
    )


def picture(plots: Mapping[str, Sequence[Estimate]]) -> str:
    """Several plots below each other, each under its title, as an SVG file that follows light and dark."""
    parts, y, width = [], 0, 560
    for title, estimates in plots.items():
        lines = textwrap.wrap(title, 80)
        for line in lines:
            y += 17
            parts.append(
                f'<text x="4" y="{y}" font-size="12.5" font-weight="600" fill="{INK}">{text(line)}</text>'
            )
        scale = 480 / _WIDTH
        height = scale * (_TOP + _ROW * len(estimates) + _BOTTOM)
        inner = forest(estimates, title).replace(
            "<svg ", f'<svg x="20" y="{y + 6}" width="480" height="{height:.0f}" ', 1
        )
        parts.append(inner)
        y += round(height) + 18
    dark = (
        f'[fill="{INK}"]{{fill:#e4e9ee}}[fill="{MUTED}"]{{fill:#9aa7b4}}[stroke="{RULE}"]{{stroke:#2a333c}}'
        f'[stroke="{INK}"]{{stroke:#e4e9ee}}'
    )
    style = (
        f"<style>text{{font-family:system-ui,sans-serif}}@media(prefers-color-scheme:dark){{{dark}}}</style>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}">{style}{"".join(parts)}</svg>\n'
    )


def _row(
    one: Estimate, y: float, left: float, across: Callable[[float], float], span: tuple[float, float]
) -> list[str]:
    colour = {1: SEVERAL[0], -1: SEVERAL[1], 0: MUTED}[one.side]
    (low, high), (least, most) = one.ends, span
    name = text(_short(one.name))
    parts = [f'<text x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end" fill="{INK}">{name}</text>']
    parts.append(
        f'<line x1="{across(low):.1f}" x2="{across(high):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
        f'stroke="{colour}" stroke-width="2"/>'
    )
    for end, cut, tip in ((low, low < least, 5), (high, high > most, -5)):
        if cut:  # an arrow: the interval goes on
            x = across(end)
            parts.append(f'<path d="M{x:.1f},{y:.1f} l{tip},-4 v8 z" fill="{colour}"/>')
    parts.append(f'<circle cx="{across(one.value):.1f}" cy="{y:.1f}" r="3.6" fill="{colour}"/>')
    if one.paper is not None:
        diamond = f"M{across(one.paper):.1f},{y - 5:.1f} l5,5 l-5,5 l-5,-5 z"
        parts.append(f'<path d="{diamond}" fill="none" stroke="{INK}" stroke-width="1.3"/>')
    return parts


def _range(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Zero, all values and the paper's, and intervals unless one of them would squeeze the others."""
    inner = (
        [0.0] + [one.value for one in estimates] + [one.paper for one in estimates if one.paper is not None]
    )
    outer = [end for one in estimates for end in one.ends]
    reach = max(inner) - min(inner) or max(map(abs, outer)) or 1.0
    low = max(min([*inner, *outer]), min(inner) - 1.5 * reach)
    high = min(max([*inner, *outer]), max(inner) + 1.5 * reach)
    edge = 0.04 * (high - low) or 1.0
    return low - edge, high + edge


def _signed(value: float) -> str:
    return f"{value:+g}" if value else "0"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _said(one: Estimate) -> str:
    error = "" if one.error is None or math.isnan(one.error) else f" ± {one.error:g}"
    if one.interval is not None:
        error = f" [{one.interval[0]:+g}, {one.interval[1]:+g}]"
    paper = "" if one.paper is None else f" (paper {one.paper:+g})"
    return f"{one.name} {one.value:+g}{error}{paper}".strip()


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two ends.

    >>> ticks(0.0, 10.0), ticks(3.0, 3.0)
    ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [3.0])
    """
    if not high > low:
        return [low]
    step = (high - low) / wanted
    base = 10.0 ** math.floor(math.log10(step))
    step = next(base * factor for factor in (1, 2, 5, 10) if base * factor >= step * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 10) for place in range(first, last + 1)]
