"""Norm clipping: no update is longer than the cohort's median one (Sun et al., 2019, "Can you really backdoor
federated learning?"; the median in place of a fixed bound is ours).

A bound on lengths alone bounds nothing where a client says itself how much it weighs: `Aggregation` bounds
the weights as well wherever it clips.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.held import Updates, norm
from fedhpo.aggregation.mean import StreamedMean
from fedhpo.core.vectors import Vector


def clip_scale(update: Vector, most: float) -> float:
    """The factor that brings an update to a norm of at most `most`.

    >>> clip_scale(np.array([3.0, 4.0], np.float32), 2.5), clip_scale(np.array([3.0, 4.0], np.float32), 9.0)
    (0.5, 1.0)
    """
    length = norm(update)
    return min(1.0, most / length) if length else 1.0


def norm_clipping(
    updates: Updates, weights: Sequence[float] | NDArray[np.float64], most: float | None = None
) -> Vector:
    """The weighted mean of updates, each shortened to the norm `most`, by default the median of their norms.

    >>> updates = np.array([[3, 4], [0, 5], [-300, 400]], np.float32)
    >>> norm_clipping(updates, [1.0, 1.0, 2.0]).tolist()  # the last one becomes (-3, 4)
    [-0.75, 4.25]
    """
    if most is None:
        most = float(np.median([norm(update) for update in updates]))
    mean = StreamedMean()
    for update, weight in zip(updates, weights, strict=True):
        mean.add(update, weight, clip_scale(update, most))
    return mean.value()
