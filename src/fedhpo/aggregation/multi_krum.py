"""Multi-Krum (Blanchard et al., 2017, "Machine learning with adversaries"): the mean of the updates that have
the nearest neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.held import Updates, squared_distances
from fedhpo.core.vectors import Vector


def multi_krum(updates: Updates, hostile: int) -> Vector:
    """The mean of the chosen updates, every one counting once.

    >>> multi_krum(np.array([[0], [1], [2], [3], [90]], np.float32), hostile=1).tolist()  # 1 and 2
    [1.5]
    """
    mean: Vector = updates[chosen(updates, hostile)].mean(axis=0)
    return mean


def chosen(updates: Updates, hostile: int) -> NDArray[np.int64]:
    """Which n - f - 2 of n updates, f of them hostile, are nearest to their n - f - 2 nearest others.

    Cohorts of fewer than f + 3 keep one update.

    >>> chosen(np.array([[0], [1], [2], [3], [90]], np.float32), hostile=1).tolist()
    [1, 2]
    """
    count = max(1, len(updates) - hostile - 2)
    nearest = np.sort(squared_distances(updates), axis=1)  # the first is the distance from itself
    scores = nearest[:, 1 : count + 1].sum(axis=1)
    return np.sort(np.argsort(scores, kind="stable")[:count])
