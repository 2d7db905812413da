"""The mean of updates, weighted by rows or uniformly: FedAvg (McMahan et al., 2017, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.vectors import Vector


class StreamedMean:
    """A weighted mean that keeps the sum alone, so that its memory does not grow with the cohort.

    >>> mean = StreamedMean()
    >>> mean.add(np.array([1.0, 0.0], np.float32), 3.0)
    >>> mean.add_sum(np.array([5.0, 4.0], np.float32), 1.0)
    >>> mean.value().tolist()
    [2.0, 1.0]
    """

    def __init__(self) -> None:
        self._sum: Vector | None = None
        self._weight = 0.0

    def add(self, update: Vector, weight: float, scale: float = 1.0) -> None:
        """Add `scale` times an update; the array is not kept."""
        part = np.float32(scale * weight) * update
        self._sum = part if self._sum is None else np.add(self._sum, part, out=self._sum)
        self._weight += weight

    def add_sum(self, total: Vector, weight: float) -> None:
        """Add a sum of updates, each times its own weight; `weight` is the sum of these. It is not kept."""
        self._sum = total.copy() if self._sum is None else np.add(self._sum, total, out=self._sum)
        self._weight += weight

    def add_part(self, add: Callable[[Vector], None], size: int, weight: float) -> None:
        """The same for a sum that `add` adds to a vector of `size` numbers."""
        if self._sum is None:
            self._sum = np.zeros(size, np.float32)
        add(self._sum)
        self._weight += weight

    def value(self) -> Vector:
        """The mean of what was added, once: the sum's own memory holds it."""
        if self._sum is None or not self._weight:
            raise InputError("no update to average, or only updates of weight zero")
        mean, self._sum = self._sum, None
        mean /= np.float32(self._weight)
        return mean
