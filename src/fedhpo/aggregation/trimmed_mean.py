"""The trimmed mean of every coordinate (Yin et al., 2018, "Byzantine-robust distributed learning")."""

from __future__ import annotations

import numpy as np

from fedhpo.aggregation.held import Updates
from fedhpo.core.vectors import Vector


def trimmed_mean(updates: Updates, cut: int) -> Vector:
    """Each coordinate's mean without its `cut` smallest and its `cut` largest values.

    >>> trimmed_mean(np.array([[1], [2], [4], [99]], np.float32), cut=1).tolist()
    [3.0]
    """
    ordered = np.sort(updates, axis=0)
    mean: Vector = ordered[cut : len(ordered) - cut].mean(axis=0)
    return mean
