"""What a figure holds: errors of many searches by table, series and place on the x-axis; or dots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedhpo.protocol.federation import Floats

_FIVE = ("low", "low", "median", "high", "high")


@dataclass(frozen=True, eq=False)
class Point:
    """The true errors that searches came to, one for each bootstrap or seed."""

    table: str
    series: str
    x: float | str
    errors: Floats

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """First quartile, median and third quartile of the error, in percent.

        >>> Point("toy", "RS", 1, np.array([0.1, 0.2, 0.3])).quartiles
        (15.0, 20.0, 25.0)
        """
        low, middle, high = 100 * np.nanquantile(self.errors, [0.25, 0.5, 0.75])
        return round(float(low), 4), round(float(middle), 4), round(float(high), 4)


@dataclass(frozen=True, eq=False)
class Figure:
    """Numbered as in the paper; what the paper does not have is named instead."""

    number: str
    title: str

    @property
    def place(self) -> int:
        """By which figures are ordered: the first of the paper's numbers, or behind all of them.

        >>> Figure("10 and 14", "").place, Figure("remedies, HB", "").place
        (10, 100)
        """
        first = self.number.split()[0]
        return int(first) if first.isdigit() else 100

    @property
    def heading(self) -> str:
        """The number, and what it shows.

        >>> Figure("3", "Few clients").heading, Figure("remedies, HB", "Remedies").heading
        ('Figure 3: Few clients', 'Not in the paper: Remedies')
        """
        if self.place == 100:
            return f"Not in the paper: {self.title}"
        return f"Figure{'s' if ' and ' in self.number else ''} {self.number}: {self.title}"


@dataclass(frozen=True, eq=False)
class Curves(Figure):
    """A figure of medians and quartiles, one panel for each table."""

    x_title: str
    points: Sequence[Point]
    log: bool = False

    @property
    def tables(self) -> list[str]:
        """The panels."""
        return list(dict.fromkeys(point.table for point in self.points))

    @property
    def series(self) -> list[str]:
        """The lines of all panels together."""
        return list(dict.fromkeys(point.series for point in self.points))

    def of(self, table: str, series: str) -> list[Point]:
        """One line."""
        return [point for point in self.points if (point.table, point.series) == (table, series)]

    def errors(self, table: str, series: str, x: float | str) -> Floats:
        """One point's errors."""
        [found] = [point.errors for point in self.of(table, series) if point.x == x]
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; errors in percent."""
        rows = [
            {
                "table": p.table,
                "series": p.series,
                "x": p.x,
                **dict(zip(("low", "median", "high"), p.quartiles, strict=True)),
                "searches": len(p.errors),
            }
            for p in self.points
        ]
        about = {"figure": self.number, "title": self.title, "x": self.x_title, "log": self.log}
        return {**about, "points": rows}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Curves:
        """The figure that `to_dict` tells: quartiles are as they were, single searches are gone.

        >>> figure = Curves("3", "Few", "clients", [Point("toy", "RS", 1, np.array([0.1, 0.2, 0.3, 0.6]))])
        >>> Curves.from_dict(figure.to_dict()).points[0].quartiles == figure.points[0].quartiles
        True
        """
        points = [
            # The quartiles of these five values are the three that are known.
            Point(p["table"], p["series"], p["x"], np.array([p[k] for k in _FIVE], dtype=np.float64) / 100)
            for p in told["points"]
        ]
        return cls(told["figure"], told["title"], told["x"], points, told["log"])


@dataclass(frozen=True, eq=False)
class Dots(Figure):
    """A figure of one dot for each config, panel by panel: x and y in percent."""

    panels: Mapping[str, Floats]
    #: What x and y of each panel are.
    axes: Mapping[str, tuple[str, str]]
    #: A number that sums up each panel, and what it is.
    summary: Mapping[str, float]
    summary_title: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        panels = {
            name: {
                "x": self.axes[name][0],
                "y": self.axes[name][1],
                self.summary_title: self.summary[name],
                "dots": np.round(dots, 3).tolist(),
            }
            for name, dots in self.panels.items()
        }
        return {"figure": self.number, "title": self.title, "summary": self.summary_title, "panels": panels}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Dots:
        """The figure that `to_dict` tells."""
        panels, title = told["panels"], told["summary"]
        return cls(
            told["figure"],
            told["title"],
            {name: np.array(panel["dots"], dtype=np.float64) for name, panel in panels.items()},
            {name: (panel["x"], panel["y"]) for name, panel in panels.items()},
            {name: panel[title] for name, panel in panels.items()},
            title,
        )
