"""Label flipping: hostile clients train, with care, on wrong labels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.data import FederatedData


def flipped(data: FederatedData, clients: Collection[int]) -> FederatedData:
    """The same data, where class c of these clients' training rows is called classes - 1 - c.

    >>> from fedhpo.data import from_clients
    >>> rows = {"train": (np.zeros((3, 2), np.float32), np.array([0, 1, 2]))}
    >>> flipped(from_clients([rows, rows], classes=3), [1]).y.tolist()
    [0, 1, 2, 2, 1, 0]
    """
    if data.classes is None:
        raise InputError("labels can be flipped of classes only, and this data has none")
    labels = np.array(data.y)
    rows = np.concatenate([np.empty(0, np.int64), *(data.train.rows(client) for client in clients)])
    labels[rows] = data.classes - 1 - labels[rows]
    return replace(data, y=labels)
