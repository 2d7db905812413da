"""Small parties for tests of learners: two classes of points in the plane, drawn at random."""

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
