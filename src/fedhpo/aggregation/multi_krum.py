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
    count = max(1, len(updates) - hostile - 2)  # a cohort of fewer than f + 3 keeps one update
    mean: Vector = updates[central(updates, count, count)].mean(axis=0)
    return mean


def central(updates: Updates, count: int, neighbours: int) -> NDArray[np.int64]:
    """The places of the `count` updates that are nearest to so many nearest others (Krum's score).

    >>> central(np.array([[0], [1], [2], [3], [90]], np.float32), count=2, neighbours=2).tolist()
    [1, 2]
    """
    nearest = np.sort(squared_distances(updates), axis=1)  # the first is the distance from itself
    scores = nearest[:, 1 : neighbours + 1].sum(axis=1)
    return np.sort(np.argsort(scores, kind="stable")[:count])
