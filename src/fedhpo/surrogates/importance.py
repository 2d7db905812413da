"""How much each hyperparameter matters: what a forest loses when one is shuffled (Breiman, 2001).

Trained and asked on different trials, so that a hyperparameter which means nothing gets nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.streams import derive, stream

Floats = NDArray[np.float64]

#: Fewer trials cannot tell hyperparameters apart.
LEAST = 12
#: Of more trials so many are looked at, evenly.
_MOST = 400
_PARTS, _TREES, _SHUFFLES = 5, 40, 4


@dataclass(frozen=True)
class Importance:
    """Shares of the columns, which sum to 1, and how much of the differences the forest explains."""

    shares: Floats
    explained: float


def importance(points: Floats, scores: Floats, seed: int = 0) -> Importance | None:
    """The importance of each column for the ranks of the scores; None where that cannot be told.

    Ranks, because one diverged trial would hide all else. A forest learns on four fifths of the trials, and
    is asked for the others, once as they are and then with a column shuffled. `scores` must be finite; a
    point may hold NaN where a hyperparameter is not active.

    >>> draws = stream(0, "example").random((60, 2))
    >>> found = importance(draws, draws[:, 0] ** 2)
    >>> bool(found.shares[0] > 0.9)
    True
    """
    from sklearn.ensemble import RandomForestRegressor

    if len(points) > _MOST:
        kept = np.linspace(0, len(points) - 1, _MOST).round().astype(int)
        points, scores = points[kept], scores[kept]
    if len(points) < LEAST or len(set(scores.tolist())) < 3:
        return None
    ranks = _ranks(scores)
    part = stream(seed, "importance", "parts").permutation(len(points)) % _PARTS
    lost, error = np.zeros(points.shape[1]), 0.0
    for one in range(_PARTS):
        train, held = part != one, part == one
        state = derive(seed, "importance", one) % 2**32
        forest = RandomForestRegressor(_TREES, min_samples_leaf=2, random_state=state, n_jobs=1)
        forest.fit(_filled(points[train]), ranks[train])
        plain = _filled(points[held])
        base = float(np.sum((forest.predict(plain) - ranks[held]) ** 2))
        error += base
        lost += _losses(forest, plain, ranks[held], stream(seed, "importance", "shuffle", one)) - base
    explained = 1 - error / float(np.sum((ranks - ranks.mean()) ** 2))
    lost = np.maximum(lost, 0.0)
    if explained <= 0.05 or not lost.sum():
        return None
    return Importance(lost / lost.sum(), explained)


def _losses(forest: object, points: Floats, ranks: Floats, generator: np.random.Generator) -> Floats:
    """The squared error with each column shuffled, as a mean over several shuffles: one question for all."""
    count, columns = points.shape
    asked = np.tile(points, (columns * _SHUFFLES, 1)).reshape(columns, _SHUFFLES, count, columns)
    for column in range(columns):
        for again in range(_SHUFFLES):
            asked[column, again, :, column] = generator.permutation(points[:, column])
    told = forest.predict(asked.reshape(-1, columns)).reshape(columns, _SHUFFLES, count)  # type: ignore[attr-defined]
    found: Floats = np.sum((told - ranks) ** 2, axis=2).mean(axis=1)
    return found


def landscape(points: Floats, scores: Floats, across: int, up: int, size: int = 13, seed: int = 0) -> Floats:
    """The score that a forest expects over two columns from 0 to 1, as a mean over the others' values.

    Rows go along `up`, from 0 to 1.
    """
    from sklearn.ensemble import RandomForestRegressor

    kept = np.linspace(0, len(points) - 1, min(len(points), 100)).round().astype(int)
    state = derive(seed, "landscape") % 2**32
    forest = RandomForestRegressor(_TREES, min_samples_leaf=3, random_state=state, n_jobs=1)
    forest.fit(_filled(points), scores)
    ticks = np.linspace(0, 1, size)
    asked = np.tile(_filled(points[kept]), (size * size, 1))
    asked[:, across] = np.repeat(np.tile(ticks, size), len(kept))
    asked[:, up] = np.repeat(ticks, size * len(kept))
    found: Floats = forest.predict(asked).reshape(size, size, len(kept)).mean(axis=2)
    return found


def _ranks(scores: Floats) -> Floats:
    """Places in order, ties shared."""
    from scipy.stats import rankdata

    found: Floats = rankdata(scores)
    return found


def _filled(points: Floats) -> Floats:
    """A value off the scale where a hyperparameter is not active."""
    return np.where(np.isnan(points), -1.0, points)
