"""Small parties for tests, drawn at random: two classes of points in the plane; clients of uneven sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.data import FederatedData, from_clients

#: An estimator that is fitted in a millisecond; its one hyperparameter of note is `var_smoothing`.
BAYES = "sklearn.naive_bayes:GaussianNB"


def party_rows(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features and labels of one party.

    >>> x, y = party_rows(4, seed=0)
    >>> x.shape, y
    ((4, 2), array([0, 1, 0, 1]))
    """
    y = np.arange(count) % 2
    centre = np.where(y[:, None] == 1, 1.0, -1.0)
    x = np.random.default_rng(seed).normal(scale=1.5, size=(count, 2)) + centre
    return x.astype(np.float32), y


def party_data(parties: int = 3, count: int = 60, **options: Any) -> FederatedData:
    """So many parties of `count` rows each; options are those of `fedhpo.from_clients`."""
    return from_clients([party_rows(count, seed) for seed in range(parties)], **options)


def uneven_data() -> FederatedData:
    """Eight clients of 5 to 12 rows; the seventh only validates, the eighth holds no validation data."""
    rng = np.random.default_rng(0)

    def rows(count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)

    clients = [{"train": rows(5 + i), "validation": rows(3 + i % 2), "test": rows(2)} for i in range(6)]
    return from_clients([*clients, {"validation": rows(4)}, {"train": rows(12)}], classes=3)
