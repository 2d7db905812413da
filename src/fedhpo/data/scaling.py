"""What brings features to one scale at every party, from sums that the parties send: no row leaves one.

A party sends, for each feature, how many values it has, their mean and their squared deviations from it
(or the least and the greatest value). These add up to those of all rows (Chan, Golub and LeVeque, 1983).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from fedhpo.core.errors import unknown_name
from fedhpo.data.container import Array, Floats, Split

SCALES = ("standard", "minmax")


@dataclass(frozen=True, eq=False)
class Moments:
    """One party's statistics of each feature; missing values (NaN) do not count.

    >>> both = Moments.of(np.array([[1.0], [3.0]])) + Moments.of(np.array([[8.0]]))
    >>> both.mean, both.std.round(4), both.low, both.high
    (array([4.]), array([2.9439]), array([1.]), array([8.]))
    """

    count: Floats
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, x: Array) -> Moments:
        """The moments of these rows."""
        wide = x.astype(np.float64)
        there = ~np.isnan(wide)
        count = there.sum(axis=0).astype(np.float64)
        mean = np.where(there, wide, 0.0).sum(axis=0) / np.maximum(count, 1)
        squares = (np.where(there, wide - mean, 0.0) ** 2).sum(axis=0)
        low = np.where(there, wide, np.inf).min(axis=0, initial=np.inf)
        high = np.where(there, wide, -np.inf).max(axis=0, initial=-np.inf)
        return cls(count, mean, squares, low, high)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.mean - self.mean
        return Moments(
            count,
            self.mean + apart * share,
            self.squares + other.squares + apart**2 * self.count * share,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def std(self) -> Floats:
        """The standard deviation over all rows."""
        return np.asarray(np.sqrt(self.squares / np.maximum(self.count, 1)))

    def scaling(self, kind: str) -> tuple[Array, Array]:
        """What to take off and what to divide by: for mean 0 and variance 1, or for values in 0..1.

        A constant feature becomes 0, one that nobody has a value of stays as it is.
        """
        if kind == "standard":
            shift, scale = self.mean, self.std
        elif kind == "minmax":
            shift, scale = self.low, self.high - self.low
        else:
            raise unknown_name("scale", kind, SCALES)
        known = self.count > 0
        shift, scale = np.where(known, shift, 0.0), np.where(known, scale, 1.0)
        return shift.astype(np.float32), np.where(scale > 0, scale, 1.0).astype(np.float32)


def moments(x: Array, split: Split) -> Moments:
    """The moments of all rows of a split, party by party."""
    parties: Iterable[Moments] = (
        Moments.of(x[split.rows(int(party))]) for party in np.flatnonzero(split.sizes)
    )
    return reduce(Moments.__add__, parties)
