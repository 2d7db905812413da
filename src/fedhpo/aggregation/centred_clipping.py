"""Centred clipping (Karimireddy, He and Jaggi, 2021, "Learning from history for Byzantine robust
optimization", Algorithm 2): what counts of an update is its difference from a centre, shortened to a radius.

The centre is the step of the round before: in one round hostile clients can move it by little. The paper
leaves the radius to the user; here it is the median distance from the centre unless one is given, so that it
follows the updates as they become shorter.
"""

from __future__ import annotations

import numpy as np

from fedhpo.aggregation.held import Updates, norm
from fedhpo.aggregation.norm_clipping import clip_scale
from fedhpo.core.vectors import Vector

#: Times that the centre moves in a round; the paper takes 1 to 3.
ITERATIONS = 3


def centred_clipping(
    updates: Updates, centre: Vector | None = None, radius: float | None = None, iterations: int = ITERATIONS
) -> Vector:
    """The centre after it moved, `iterations` times, by the mean of the clipped differences.

    >>> updates = np.array([[0], [2], [100]], np.float32)
    >>> zero = np.zeros(1, np.float32)
    >>> centred_clipping(updates, zero, radius=4.0, iterations=1).tolist()  # (0 + 2 + 4) / 3
    [2.0]
    """
    found = np.zeros(updates.shape[1], np.float32) if centre is None else centre
    for _ in range(iterations):
        differences = updates - found
        most = float(np.median([norm(one) for one in differences])) if radius is None else radius
        scales = np.array([clip_scale(one, most) for one in differences], np.float32)
        found = (found + scales @ differences / np.float32(len(updates))).astype(np.float32)
    return found
