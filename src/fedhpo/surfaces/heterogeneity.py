"""How much the parties differ: by the best that each found, and, in simulation, by their data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from fedhpo.engine.streams import stream
from fedhpo.errors import InputError
from fedhpo.samplers._cube import Floats
from fedhpo.surfaces.pairs import PartyPairs

#: Rows of each party that take part: an exact assignment of so many takes some milliseconds.
ROWS = 256


def best_scores(parties: Sequence[PartyPairs]) -> list[float]:
    """The best score of each party's own search, 1 - its lowest loss; the least is PMin, the largest PMax."""
    return [1 - min(party.losses) for party in parties]


def gamma(parties: Sequence[PartyPairs]) -> float:
    """The paper's gamma_p = PMax / PMin: 1 where the parties' best are alike, more where they are not.

    NaN where a score is not above 0, as may be with a loss that is not 1 - accuracy.

    >>> from fedhpo.config import Config
    >>> two = [PartyPairs(i, 9, (Config(),), (loss,)) for i, loss in enumerate((0.1, 0.25))]
    >>> gamma(two)
    1.2
    """
    scores = best_scores(parties)
    return max(scores) / min(scores) if min(scores) > 0 else math.nan


def wasserstein(
    data: Sequence[tuple[NDArray[Any], NDArray[Any]]], *, seed: int = 0, rows: int = ROWS
) -> tuple[Floats, float]:
    """1-Wasserstein distances between the parties' data (features, labels), and what chance alone gives.

    The distance of two rows is the Euclidean one over the features, each scaled to [0, 1] over all parties,
    divided by the root of their number; plus 1 if the labels differ. Of each party equally many rows are
    drawn, `rows` at most, and matched at the least cost, which is exact for these rows. Two samples of one
    distribution are never 0 apart: the second value is the mean distance of parties of the same size whose
    rows were dealt by chance, and only what exceeds it tells of heterogeneity. This needs the rows of all
    parties in one place, so it is for simulations.

    >>> x = np.zeros((4, 1))
    >>> distances, _ = wasserstein([(x, np.zeros(4)), (x, np.array([0, 0, 0, 1]))])
    >>> distances.tolist()
    [[0.0, 0.25], [0.25, 0.0]]
    """
    if len(data) < 2:
        raise InputError(f"data must hold the rows of at least two parties, found {len(data)}")
    rng = stream(seed, "wasserstein")
    drawn = min(rows, *(len(labels) for _, labels in data))
    features = np.vstack([np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x, _ in data])
    labels = np.concatenate([y for _, y in data])
    low, high = features.min(axis=0), features.max(axis=0)
    features = (features - low) / np.where(high > low, high - low, 1.0) / math.sqrt(features.shape[1])
    ends = np.cumsum([len(y) for _, y in data])
    samples = [
        rng.choice(np.arange(end - len(y), end), drawn, replace=False)
        for (_, y), end in zip(data, ends, strict=True)
    ]

    def distance(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
        cost = cdist(features[a], features[b]) + (labels[a][:, None] != labels[b])
        return float(cost[linear_sum_assignment(cost)].mean())

    distances = np.zeros((len(data), len(data)))
    for i, one in enumerate(samples):
        for j in range(i):
            distances[i, j] = distances[j, i] = distance(one, samples[j])
    pool = np.concatenate(samples)
    chance = []
    for _ in range(5):
        dealt = rng.permutation(pool)
        chance.append(distance(dealt[:drawn], dealt[drawn : 2 * drawn]))
    return distances, float(np.mean(chance))
