"""Mixed Krum: multi-Krum (Blanchard et al., 2017) on directions after nearest-neighbour mixing (Allouah et
al., 2023). The combination is ours; docs/robust.md says what it withstood where clients' data differ.

A coordinate-wise rule after mixing shortens honest updates that differ, and distances between updates of
unequal length favour short ones, so that an attacker hides by sending little. Hence: every update is
shortened to the median norm; neighbours are those of the nearest direction; Krum picks n - f clients by the directions
of their mixtures; and what counts in the end is the mean of these clients' own, shortened updates.
"""

from __future__ import annotations

import numpy as np

from fedhpo.aggregation.held import Updates, norm
from fedhpo.aggregation.multi_krum import central
from fedhpo.aggregation.nearest_neighbour_mixing import mixed
from fedhpo.aggregation.norm_clipping import clip_scale
from fedhpo.core.vectors import Vector


def mixed_krum(updates: Updates, hostile: int) -> Vector:
    """The mean of the n - f shortened updates whose mixtures have the nearest neighbours.

    >>> updates = np.array([[3, 4], [4, 3], [5, 0], [-300, -400]], np.float32)
    >>> mixed_krum(updates, hostile=1).tolist()  # of the first three
    [4.0, 2.3333332538604736]
    """
    most = float(np.median([norm(update) for update in updates]))
    scales = np.array([clip_scale(update, most) for update in updates], np.float32)
    shortened = scales[:, None] * updates
    mixtures = mixed(shortened, hostile, by=directions(shortened))
    picked = central(directions(mixtures), len(updates) - hostile, len(updates) - hostile - 1)
    mean: Vector = shortened[picked].mean(axis=0)
    return mean


def directions(updates: Updates) -> Updates:
    """Updates of norm 1; one of norm 0 stays as it is.

    >>> directions(np.array([[3, 4], [0, 0]], np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.array([norm(update) or 1.0 for update in updates])
    found: Updates = (updates / lengths[:, None]).astype(np.float32)
    return found
