"""What the rules that look at all updates at once work with: one row an update."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.vectors import Vector

#: Updates of a cohort, one a row.
Updates = NDArray[np.float32]
#: Columns that one piece of work looks at, so that memory stays small beside the updates themselves.
_COLUMNS = 1 << 16


def hostile_count(share: float, clients: int) -> int:
    """How many of so many clients a share is, rounded down.

    >>> hostile_count(0.25, 20), hostile_count(0.29, 100), hostile_count(0.25, 3)
    (5, 29, 0)
    """
    return int(share * clients + 1e-9)


def norm(update: Vector) -> float:
    """The Euclidean norm of an update, in double precision."""
    return float(np.sqrt(np.add.reduce(np.square(update, dtype=np.float64))))


def lengths_and_cosines(updates: Updates, result: Vector) -> tuple[list[float], list[float]]:
    """The norm of each update, and its cosine with what they were put together to; four digits of each.

    >>> lengths_and_cosines(np.array([[3, 4], [0, -2]], np.float32), np.array([0, 1], np.float32))
    ([5.0, 2.0], [0.8, -1.0])
    """
    lengths = [norm(update) for update in updates]
    size = norm(result)
    inner = [float(np.dot(update.astype(np.float64), result)) for update in updates]
    cosines = [one / (own * size) if own * size else 0.0 for one, own in zip(inner, lengths, strict=True)]
    return [float(f"{one:.4g}") for one in lengths], [float(f"{one:.4g}") for one in cosines]


def squared_distances(updates: Updates) -> NDArray[np.float64]:
    """The squared Euclidean distance of every update from every other.

    >>> squared_distances(np.array([[0, 0], [3, 4], [0, 1]], np.float32)).tolist()
    [[0.0, 25.0, 1.0], [25.0, 0.0, 18.0], [1.0, 18.0, 0.0]]
    """
    products = np.zeros((len(updates), len(updates)))
    for begin in range(0, updates.shape[1], _COLUMNS):
        part = updates[:, begin : begin + _COLUMNS].astype(np.float64)
        products += part @ part.T
    squares = np.diag(products)
    found = np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0)
    np.fill_diagonal(found, 0.0)
    return found
