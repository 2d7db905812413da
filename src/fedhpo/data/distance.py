"""How far apart clients' data are, where all of it is in one place: in a simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.data.container import Array, FederatedData, Integers

#: Rows of each client that take part: an exact assignment of so many takes some milliseconds.
ROWS = 256
#: Each is compared with each, so only so many clients are.
MOST = 16


def wasserstein(clients: Sequence[tuple[Array, Array]], *, seed: int = 0, rows: int = ROWS) -> dict[str, Any]:
    """1-Wasserstein `distances` between clients' rows (features, labels), and what `chance` alone gives.

    The distance of two rows is the Euclidean one over the features, each scaled to [0, 1] over the rows of
    all clients, divided by the root of their number; plus 1 if the labels differ. A missing number counts as
    the mean of its feature. Of each client equally many
    rows are drawn, `rows` at most, and matched at the least cost, which is exact for these rows. Two samples
    of one distribution are never 0 apart: `chance` is the mean distance of clients of the same size whose
    rows were dealt by chance, and only what exceeds it tells of heterogeneity.

    >>> x = np.zeros((4, 1))
    >>> wasserstein([(x, np.zeros(4)), (x, np.array([0, 0, 0, 1]))])["distances"]
    [[0.0, 0.25], [0.25, 0.0]]
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    if len(clients) < 2:
        raise InputError(f"distances are between at least two clients, found {len(clients)}")
    rng = stream(seed, "wasserstein")
    drawn = min(rows, *(len(labels) for _, labels in clients))
    if not drawn:
        raise InputError("distances are between clients with rows, found one without")
    features = np.vstack([np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x, _ in clients])
    features = _filled(features)
    labels = np.concatenate([y for _, y in clients])
    low, high = features.min(axis=0), features.max(axis=0)
    features = (features - low) / np.where(high > low, high - low, 1.0) / math.sqrt(features.shape[1])
    ends = np.cumsum([len(y) for _, y in clients])
    samples = [
        rng.choice(np.arange(end - len(y), end), drawn, replace=False)
        for (_, y), end in zip(clients, ends, strict=True)
    ]

    def distance(a: Integers, b: Integers) -> float:
        cost = cdist(features[a], features[b]) + (labels[a][:, None] != labels[b])
        return float(cost[linear_sum_assignment(cost)].mean())

    distances = np.zeros((len(clients), len(clients)))
    for i, one in enumerate(samples):
        for j in range(i):
            distances[i, j] = distances[j, i] = distance(one, samples[j])
    pool = np.concatenate(samples)
    chance = []
    for _ in range(5):
        dealt = rng.permutation(pool)
        chance.append(distance(dealt[:drawn], dealt[drawn : 2 * drawn]))
    return {"distances": np.round(distances, 6).tolist(), "chance": float(np.mean(chance))}


def _filled(features: Array) -> Array:
    """Features with the mean of their column where a number is missing; 0 where all of it is."""
    missing = np.isnan(features)
    if not missing.any():
        return features
    counts = np.maximum((~missing).sum(axis=0), 1)
    return np.where(missing, np.nansum(features, axis=0) / counts, features)


def distances(data: FederatedData, clients: Sequence[int] | Integers, seed: int = 0) -> dict[str, Any] | None:
    """`wasserstein` of the training rows of these clients of a federation, the first `MOST`: see `clients`.

    None where it would say nothing: for less than two clients with rows, and for rows that are not features
    and a class (tokens, regression).

    >>> import fedhpo as fh
    >>> data = fh.load("digits", clients=2, partition={"kind": "shards", "per_client": 1})
    >>> found = distances(data, [0, 1])
    >>> found["distances"][0][1] > found["chance"]
    True
    """
    if data.task != "classification" or data.is_tokens:
        return None
    rng = stream(seed, "rows compared")
    compared = [int(client) for client in clients if data.train.sizes[client]][:MOST]
    if len(compared) < 2:
        return None
    held = [data.train.rows(client) for client in compared]
    # Drawn before they are read: a client may hold more than fits into memory.
    drawn = [np.sort(rng.choice(rows, min(ROWS, len(rows)), replace=False)) for rows in held]
    found = wasserstein([(data.x[rows], data.y[rows]) for rows in drawn], seed=seed)
    return {"clients": compared, **found}
