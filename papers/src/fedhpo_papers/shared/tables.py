"""Figures over seeds, and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its standard error (NaN of a single one).

    >>> print(Mean.of([1.0, 2.0, 3.0]))
    2.000 ± 0.577
    """

    value: float
    error: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        """Of the values that are not NaN."""
        known = np.array([value for value in values if not math.isnan(value)])
        if not len(known):
            return cls(math.nan, math.nan, 0)
        error = float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else math.nan
        return cls(float(known.mean()), error, len(known))

    @property
    def low(self) -> float:
        """Two standard errors below."""
        return self.value - 2 * (0.0 if math.isnan(self.error) else self.error)

    @property
    def high(self) -> float:
        """Two standard errors above."""
        return self.value + 2 * (0.0 if math.isnan(self.error) else self.error)

    @property
    def signed(self) -> str:
        """As a difference.

        >>> Mean.of([1.0, 2.0, 3.0]).signed, Mean.of([1.0]).signed
        ('+2.00 ± 0.58', '+1.00')
        """
        return f"{self.value:+.2f}" + ("" if math.isnan(self.error) else f" ± {self.error:.2f}")

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "–"
        return f"{self.value:.3f}" + ("" if math.isnan(self.error) else f" ± {self.error:.3f}")


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table.

    >>> print(markdown(["a", "b"], [[1, 2.5]]))
    | a | b |
    | --- | --- |
    | 1 | 2.500 |
    """
    lines = [list(columns), ["---"] * len(columns), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3f}"
    return str(value)
