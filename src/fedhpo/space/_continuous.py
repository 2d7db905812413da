"""Real hyperparameters, on a linear or a logarithmic scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.space._hyperparameter import Hyperparameter, flag, number
from fedhpo.space.config import frozen_value

DIGITS = 12


@dataclass(frozen=True, repr=False)
class Float(Hyperparameter):
    """A number from `low` to `high`, both included; uniform, or uniform in the logarithm.

    With `complement` it is the logarithm of 1 - value, for what is told by its distance from 1, such as a
    decay: `Float(0.99, 0.9999, log=True, complement=True)` is 1 - 10^U(-4, -2).

    Values that a space makes are rounded to 12 significant digits (linear scale: to about 12 digits
    of the range). A unit coordinate has no room for more; with it, any such value survives the way to
    the unit cube and back exactly, and is short to read. A user's own finer value is kept as it is
    until it takes that way.

    >>> Float(1e-4, 1.0, log=True).from_unit(0.5)
    0.01
    >>> Float(0.99, 0.9999, log=True, complement=True).from_unit(0.5)
    0.999
    """

    low: float
    high: float
    log: bool = False
    complement: bool = False
    _start: float = field(init=False, compare=False)
    _width: float = field(init=False, compare=False)
    _decimals: int = field(init=False, compare=False)
    _lowest: float = field(init=False, compare=False)
    _highest: float = field(init=False, compare=False)

    def _prepare(self) -> None:
        low = float(number("low", frozen_value("low", self.low)))
        high = float(number("high", frozen_value("high", self.high)))
        flag("log", self.log)
        flag("complement", self.complement)
        if not low < high:
            raise InputError(f"low must be below high, found low={low}, high={high}")
        if self.complement and not self.log:
            raise InputError("complement=True needs log=True: else 1 - value is as uniform as the value")
        if self.complement and high >= 1:
            raise InputError(f"complement=True needs high below 1, found {high}")
        if self.log and not self.complement and low <= 0:
            raise InputError(f"log=True needs low above 0, found low={low}")
        start, end = self._scaled(low), self._scaled(high)
        # Far from zero, floating point is coarser than the range's twelfth digit.
        step = max((high - low) * 10.0**-DIGITS, max(abs(low), abs(high)) * 1e-14)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "_start", start)
        object.__setattr__(self, "_width", end - start)
        object.__setattr__(self, "_decimals", -math.ceil(math.log10(step)))
        object.__setattr__(self, "_lowest", self._rounded(low))
        object.__setattr__(self, "_highest", self._rounded(high))

    @property
    def allowed(self) -> str:
        return f"a number from {self.low} to {self.high}"

    @property
    def count(self) -> float:
        return math.inf

    def check(self, value: Any) -> float:
        value = frozen_value("value", value)
        if self.is_own(value):
            return float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and self.low <= value <= self.high:
            return float(value)
        raise self._refused(value)

    def to_unit(self, value: Any) -> float:
        if self.is_own(value):  # the end of the range that is nearest
            value = min(self.high, max(self.low, value))
        if type(value) not in (float, int) or not self.low <= value <= self.high:
            raise self._refused(value)
        unit = (self._scaled(value) - self._start) / self._width
        return min(1.0, max(0.0, unit))

    def from_unit(self, unit: float) -> float:
        if unit <= 0:
            return self.low
        if unit >= 1:
            return self.high
        value = self._rounded(self._unscaled(self._start + unit * self._width))
        # Bounds may have more digits; what rounds like a bound is the bound.
        if value <= self._lowest:
            return self.low
        return self.high if value >= self._highest else value

    def _scaled(self, value: float) -> float:
        """The value in the sampling scale, which grows with it."""
        if self.complement:
            return -math.log1p(-value)
        return math.log(value) if self.log else value

    def _unscaled(self, scaled: float) -> float:
        if self.complement:
            return -math.expm1(-scaled)
        return math.exp(scaled) if self.log else scaled

    def _rounded(self, value: float) -> float:
        if self.log and not self.complement:
            return float(f"{value:.{DIGITS}g}")
        return round(value, self._decimals)

    def grid(self, points: int | None) -> list[Any]:
        if points is None:
            raise InputError(f"a continuous hyperparameter needs a number of points, found {points!r}")
        units = [0.5] if points == 1 else [index / (points - 1) for index in range(points)]
        return list(dict.fromkeys(self.from_unit(unit) for unit in units))

    def near(self, value: Any, eps: float, move: float, draw: float) -> float:
        return self.from_unit(self.to_unit(value) + eps * (2 * move - 1))

    def evolve(self, value: Any, eps: float, move: float, draw: float) -> float:
        return self.near(value, eps, move, draw)

    def clip(self, value: Any, centre: Any, radius: float) -> Any:
        gap = self.gap(centre, value)
        if abs(gap) <= radius:
            return value
        return self.from_unit(self.to_unit(centre) + math.copysign(radius, gap))

    def between(self, centre: Any, value: Any, fraction: float) -> float:
        return self.from_unit(self.to_unit(centre) + fraction * self.gap(centre, value))

    def gap(self, a: Any, b: Any) -> float:
        return self.to_unit(b) - self.to_unit(a)
