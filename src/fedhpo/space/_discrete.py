"""Hyperparameters with countably many values: whole numbers, ordered lists, unordered options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.space._hyperparameter import Hyperparameter, flag
from fedhpo.space.config import frozen_value

LARGEST = 2**40  # beyond it, neighbours on a logarithmic scale could not be told apart

# Products such as 0.1 x 30 = 3.0000000000000004 must not count as one step more.
ROUNDING = 1e-9


@dataclass(frozen=True, repr=False)
class Discrete(Hyperparameter):
    """Values with an index; each has an equal cell of the unit interval, its centre the coordinate."""

    _count: int = field(init=False, compare=False)

    def index(self, value: Any) -> int:
        """The index of a value; refuses one that is not allowed."""
        raise NotImplementedError

    def at(self, index: int) -> Any:
        """The value at an index, clipped to the first and last."""
        raise NotImplementedError

    @property
    def count(self) -> float:
        return self._count

    def to_unit(self, value: Any) -> float:
        return (self.index(value) + 0.5) / self._count

    def from_unit(self, unit: float) -> Any:
        return self.at(int(unit * self._count))

    def grid(self, points: int | None) -> list[Any]:
        count = self._count
        if points is None or points >= count:
            return [self.at(index) for index in range(count)]
        return list(dict.fromkeys(self.from_unit((index + 0.5) / points) for index in range(points)))

    # Ordered values move by steps; `Choice`, the one without order, says below what it does instead.

    def near(self, value: Any, eps: float, move: float, draw: float) -> Any:
        steps = _most_steps(eps, self._count)
        return self.at(self.index(value) + int(move * (2 * steps + 1)) - steps)

    def evolve(self, value: Any, eps: float, move: float, draw: float) -> Any:
        steps = max(1, math.floor(eps * self._count + ROUNDING)) if eps else 0
        return self.at(self.index(value) + steps * (int(move * 3) - 1))

    def clip(self, value: Any, centre: Any, radius: float) -> Any:
        steps, middle = _most_steps(radius, self._count), self.index(centre)
        return self.at(min(middle + steps, max(middle - steps, self.index(value))))

    def between(self, centre: Any, value: Any, fraction: float) -> Any:
        middle = self.index(centre)
        steps = fraction * (self.index(value) - middle)
        return self.at(middle + int(steps + math.copysign(ROUNDING, steps)))

    def gap(self, a: Any, b: Any) -> float:
        return (self.index(b) - self.index(a)) / max(1, self._count - 1)


def _most_steps(eps: float, count: int) -> int:
    """How far the ball reaches: ceil(eps x (values - 1)) steps."""
    return math.ceil(eps * (count - 1) - ROUNDING)


@dataclass(frozen=True, repr=False)
class Int(Discrete):
    """A whole number from `low` to `high`, both included.

    With `log=True` it is log-uniform over [low - 0.5, high + 0.5], rounded: each value's cell of
    the unit interval is as wide as it is likely, and moves are made in that scale, with at least
    one step in reach.

    >>> Int(1, 5).from_unit(0.5), Int(1, 100, log=True).from_unit(0.5)
    (3, 7)
    """

    low: int
    high: int
    log: bool = False
    _start: float = field(init=False, compare=False)
    _width: float = field(init=False, compare=False)

    def _prepare(self) -> None:
        for name in ("low", "high"):
            value = frozen_value(name, getattr(self, name))
            if type(value) is not int or abs(value) > LARGEST:
                raise InputError(f"{name} must be a whole number (at most 2**40), found {value!r}")
            object.__setattr__(self, name, value)
        flag("log", self.log)
        if not self.low < self.high:
            raise InputError(f"low must be below high, found low={self.low}, high={self.high}")
        if self.log and self.low <= 0:
            raise InputError(f"log=True needs low above 0, found low={self.low}")
        start = math.log(self.low - 0.5) if self.log else 0.0
        object.__setattr__(self, "_start", start)
        object.__setattr__(self, "_width", math.log(self.high + 0.5) - start if self.log else 0.0)
        object.__setattr__(self, "_count", self.high - self.low + 1)

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def check(self, value: Any) -> int:
        value = frozen_value("value", value)
        self.index(value)
        assert isinstance(value, int)
        return value

    def index(self, value: Any) -> int:
        if self.is_own(value):  # the end of the range that is nearest
            value = min(self.high, max(self.low, value))
        if type(value) is not int or not self.low <= value <= self.high:
            raise self._refused(value)
        return value - self.low

    def at(self, index: int) -> int:
        return min(self.high, max(self.low, self.low + index))

    def to_unit(self, value: Any) -> float:
        if not self.log:
            return super().to_unit(value)
        value = self.low + self.index(value)
        return (math.log((value - 0.5) * (value + 0.5)) / 2 - self._start) / self._width

    def from_unit(self, unit: float) -> int:
        if not self.log:
            return self.at(int(unit * self._count))
        unit = min(1.0, max(0.0, unit))
        return self.at(math.floor(math.exp(self._start + unit * self._width) + 0.5) - self.low)

    def near(self, value: Any, eps: float, move: float, draw: float) -> Any:
        if not self.log:
            return super().near(value, eps, move, draw)
        down, up = self._reach(value, eps)
        signed = 2 * move - 1
        return self.from_unit(self.to_unit(value) + signed * (down if signed < 0 else up))

    def evolve(self, value: Any, eps: float, move: float, draw: float) -> Any:
        if not self.log:
            return super().evolve(value, eps, move, draw)
        down, up = self._reach(value, eps)
        return self.from_unit(self.to_unit(value) + (-down, 0.0, up)[int(move * 3)])

    def clip(self, value: Any, centre: Any, radius: float) -> Any:
        if not self.log:
            return super().clip(value, centre, radius)
        down, up = self._reach(centre, radius)
        middle = self.to_unit(centre)
        return min(self.from_unit(middle + up), max(self.from_unit(middle - down), value))

    def between(self, centre: Any, value: Any, fraction: float) -> Any:
        if not self.log:
            return super().between(centre, value, fraction)
        exact = centre * (value / centre) ** fraction
        rounded = math.floor(exact + ROUNDING) if value > centre else math.ceil(exact - ROUNDING)
        return self.at(rounded - self.low)

    def gap(self, a: Any, b: Any) -> float:
        if not self.log:
            return super().gap(a, b)
        return (math.log(b) - math.log(a)) / math.log(self.high / self.low)

    def _reach(self, value: int, eps: float) -> tuple[float, float]:
        """How far down and up a log value may move in the unit interval: `eps`, or one step."""
        if eps == 0:
            return 0.0, 0.0
        here = self.to_unit(value)
        down = here - self.to_unit(value - 1) if value > self.low else 0.0
        up = self.to_unit(value + 1) - here if value < self.high else 0.0
        return max(eps, down), max(eps, up)


@dataclass(frozen=True, repr=False)
class Listed(Discrete):
    """Values given one by one."""

    _listed: tuple[Any, ...] = field(init=False, compare=False)
    _indices: dict[Any, int] = field(init=False, compare=False)

    def _store(self, name: str) -> None:
        given = getattr(self, name)
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            parts = [part.strip() for part in given.split(",")] if isinstance(given, str) else []
            instead = f": write [{', '.join(parts)}]" if len(parts) > 1 else ""
            raise InputError(f"{name} must be a list, found {given!r}{instead}")
        listed = tuple(frozen_value(name, value) for value in given)
        if not listed:
            raise InputError(f"{name} must not be empty")
        indices: dict[Any, int] = {}
        for index, value in enumerate(listed):
            if value in indices:
                raise InputError(f"{name} holds {value!r} twice (equal to {listed[indices[value]]!r})")
            indices[value] = index
        object.__setattr__(self, name, listed)
        object.__setattr__(self, "_listed", listed)
        object.__setattr__(self, "_indices", indices)
        object.__setattr__(self, "_count", len(listed))

    @property
    def allowed(self) -> str:
        return f"one of {', '.join(map(repr, self._listed))}"

    def check(self, value: Any) -> Any:
        return self._listed[self.index(frozen_value("value", value))]

    def index(self, value: Any) -> int:
        try:
            return self._indices[value]
        except KeyError:
            raise self._refused(value) from None

    def at(self, index: int) -> Any:
        return self._listed[min(self._count - 1, max(0, index))]


@dataclass(frozen=True, repr=False)
class Ordinal(Listed):
    """One of an ordered list of values, such as batch sizes; neighbours in the list are alike.

    With `log=True` a model sees the logarithm of the value in place of its place in the list: for learning
    rates that are listed at equal steps. Values are drawn evenly from the list all the same.

    >>> Ordinal([8, 16, 32, 64]).default_value()
    32
    """

    values: Sequence[Any]
    log: bool = False

    def _prepare(self) -> None:
        flag("log", self.log)
        self._store("values")
        if self.log and not all(type(value) in (int, float) and value > 0 for value in self.values):
            raise InputError(f"log=True needs numbers above 0, found values={list(self.values)!r}")


@dataclass(frozen=True, repr=False)
class Choice(Listed):
    """One of several options without order; the first is the default unless one is named.

    It has no neighbours: a move keeps the option, or, with probability `eps`, draws it anew. Every
    option lies in every ball, so clipping keeps it. Where `None` is an option, put it first to make
    it the default.

    >>> Choice(["svm", "forest"]).default_value()
    'svm'
    """

    options: Sequence[Any]

    def _prepare(self) -> None:
        self._store("options")

    def default_value(self) -> Any:
        return self.options[0] if self.default is None else self.default

    def near(self, value: Any, eps: float, move: float, draw: float) -> Any:
        return self.from_unit(draw) if move < eps else value

    def evolve(self, value: Any, eps: float, move: float, draw: float) -> Any:
        return self.near(value, eps, move, draw)

    def clip(self, value: Any, centre: Any, radius: float) -> Any:
        return value

    def between(self, centre: Any, value: Any, fraction: float) -> Any:
        return value

    def gap(self, a: Any, b: Any) -> float:
        return 0.0
