"""An aggregation rule of one's own: the geometric median of the updates. Used from geometric_median.toml.

The point with the least sum of distances to all updates, by Weiszfeld's steps (Pillutla et al., 2022, Robust
aggregation for federated learning). Half of the clients must lie to move it at will.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class GeometricMedian:
    """`steps` of Weiszfeld's algorithm; distances below `smooth` count as that."""

    steps: int = 8
    smooth: float = 1e-6

    #: Clients weigh by their rows.
    by_size: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")

    def __call__(self, updates: NDArray[np.float32], weights: Sequence[float]) -> NDArray[np.float32]:
        """One vector from the updates, one a row."""
        rows, sizes = updates.astype(np.float64), np.asarray(weights, np.float64)
        centre = np.average(rows, axis=0, weights=sizes)
        for _ in range(self.steps):
            pull = sizes / np.maximum(np.linalg.norm(rows - centre, axis=1), self.smooth)
            centre = np.average(rows, axis=0, weights=pull)
        return centre.astype(np.float32)
