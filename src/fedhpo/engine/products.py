"""Products of updates: taken as updates arrive, so that none of them has to be kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.vectors import Vector
from fedhpo.protocol.federation import Floats, Products


@dataclass(eq=False)
class UpdateProducts:
    """Products of the updates of one round; `previous` is the aggregate of the round before.

    Only the first `trainable` numbers of an update count: the others are statistics such as BatchNorm's.
    """

    members: int
    trainable: int
    previous: Vector | None = None
    #: Of each member's update; NaN where none was used.
    squared: Floats = field(init=False)
    _with_previous: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.squared, self._with_previous = np.full((2, self.members), np.nan)

    def add(self, member: int, update: Vector) -> None:
        """An update that is used."""
        own = update[: self.trainable]
        self.squared[member] = inner(own, own)
        if self.previous is not None:
            self._with_previous[member] = inner(own, self.previous)

    def of_round(self, change: Vector) -> Products:
        """The products, once the updates were put together to `change`."""
        own = change[: self.trainable]
        before = np.nan if self.previous is None else inner(own, self.previous)
        return Products(self.squared, self._with_previous, inner(own, own), float(before))


def inner(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The inner product, summed in the same order whatever the memory looks like, as BLAS would not.

    >>> inner(np.array([1, 2], np.float32), np.array([3, 4], np.float32))
    11.0
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return float((one.astype(np.float64) * other).sum())
