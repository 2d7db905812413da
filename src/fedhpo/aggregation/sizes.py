"""How much a client may weigh, by what it and the others announced, and how far it may move a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: An update may be so many times as large as the model, or as 1: training that works stays far below it.
LARGEST = 1e9
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


def beyond_use(update: ArrayLike, model: ArrayLike) -> bool:
    """Whether an update is so large that no model after it can be of use: a lie, or training that diverged.

    Rules bound updates by those of most of the cohort; where hostile clients are most of a cohort that was
    drawn, this is what keeps them from ending the trial.

    >>> beyond_use([0.5, -1e38], [0.1, 3.0]), beyond_use([0.5, -1e6], [0.1, 3.0])
    (True, False)
    """
    return _largest(update) > LARGEST * max(1.0, _largest(model))


def _largest(values: ArrayLike) -> float:
    array = np.asarray(values)
    return max(float(array.max()), -float(array.min())) if array.size else 0.0
