"""The direction filter: the mean of the updates that agree most with where most updates go. The rule is ours,
made of nearest-neighbour mixing (Allouah et al., 2023), the coordinate median (Yin et al., 2018) and norm
clipping (Sun et al., 2019); docs/robust.md says what it withstood.

A coordinate-wise rule after mixing shortens honest updates that differ, and distances between updates of
unequal length favour short ones, so that an attacker hides by sending little. Hence directions: each client's
is mixed with those of its n - f nearest neighbours; the median of the mixtures is where most updates go; the
n - f clients whose own directions agree most with it are kept. What counts in the end is the mean of these
clients' updates, none longer than the median norm.
"""

from __future__ import annotations

import numpy as np

from fedhpo.aggregation.held import Updates, norm
from fedhpo.aggregation.median import median
from fedhpo.aggregation.nearest_neighbour_mixing import mixed
from fedhpo.aggregation.norm_clipping import norm_clipping
from fedhpo.core.vectors import Vector


def direction_filter(updates: Updates, hostile: int) -> Vector:
    """The mean of the n - f updates that go where most do, each shortened to the median norm of all.

    >>> updates = np.array([[3, 4], [4, 3], [5, 0], [-300, -400]], np.float32)
    >>> direction_filter(updates, hostile=1).tolist()  # of the first three
    [4.0, 2.3333332538604736]
    """
    own = directions(updates)
    common = median(mixed(own, hostile))
    kept = np.sort(np.argsort(-(own @ common), kind="stable")[: len(updates) - hostile])
    most = float(np.median([norm(update) for update in updates]))
    return norm_clipping(updates[kept], np.ones(len(kept)), most)


def directions(updates: Updates) -> Updates:
    """Updates of norm 1; one of norm 0 stays as it is.

    >>> directions(np.array([[3, 4], [0, 0]], np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.array([norm(update) or 1.0 for update in updates])
    found: Updates = (updates / lengths[:, None]).astype(np.float32)
    return found
