"""How much a client may weigh: what it announced, and a multiple of what the others announced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: The multiple of the cohort's median size that a client weighs at most, where nothing else is said.
WEIGHT_CAP = 2.0


def size_limits(announced: Sequence[int] | NDArray[np.int64], cap: float | None) -> NDArray[np.int64]:
    """The rows that each client of a cohort may claim, given what all of them announced before.

    With a `cap` also at most that multiple of the median over those that announced any.

    >>> size_limits([10, 12, 14, 100_000, 0], cap=2.0).tolist()
    [10, 12, 14, 26, 0]
    >>> size_limits([10, 100_000], cap=None).tolist()
    [10, 100000]
    """
    sizes = np.asarray(announced, np.int64)
    holders = sizes[sizes > 0]
    if cap is None or not len(holders):
        return sizes
    return np.minimum(sizes, max(1, int(cap * np.median(holders))))
