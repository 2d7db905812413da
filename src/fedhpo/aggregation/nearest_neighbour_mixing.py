"""Nearest-neighbour mixing (Allouah et al., 2023, "Fixing by mixing", Algorithm 2): each update becomes the
mean of the n - f updates nearest to it, before another rule, here the trimmed mean, puts them together.

Clients whose data differ send updates that differ, and hostile ones hide among them; means differ less.
"""

from __future__ import annotations

import numpy as np

from fedhpo.aggregation.held import Updates, squared_distances


def mixed(updates: Updates, hostile: int) -> Updates:
    """The mean of the n - f nearest neighbours of each of n updates, itself among them.

    >>> mixed(np.array([[0], [2], [3], [50]], np.float32), hostile=2).tolist()
    [[1.0], [2.5], [2.5], [26.5]]
    """
    distances = squared_distances(updates)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : len(updates) - hostile]
    # One product of a small matrix of shares with the updates takes less memory than gathering rows.
    shares = np.zeros((len(updates), len(updates)), np.float32)
    np.put_along_axis(shares, nearest, np.float32(1 / nearest.shape[1]), axis=1)
    found: Updates = shares @ updates
    return found
