"""How much each hyperparameter matters by itself: the share of held-out differences that its effect explains.

A random forest learns the scores of four fifths of the trials. A hyperparameter's own effect is what the
forest expects at each of its values, the others taking the values of those trials: the main effect of
functional ANOVA (Hutter, Hoos and Leyton-Brown, 2014). It is then asked for the other fifth. By how much it
brings the squared error below that of the mean is its importance, so that a hyperparameter which means
nothing gets 0, in expectation. Functional ANOVA itself takes the variance of the effect on the trials it was
learned from, where chance has its share too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.streams import derive, stream

Floats = NDArray[np.float64]

#: Fewer trials cannot tell hyperparameters apart.
LEAST = 12
#: Of more trials so many are looked at, and of those a forest learned from so many stand for the others.
_MOST, _BEHIND = 400, 60
_PARTS, _REPEATS, _TREES = 5, 2, 40
#: A forest explains something where that is more than this share, and more than its standard error.
_SOMETHING = 0.05


@dataclass(frozen=True)
class Importance:
    """Each column's importance with its standard error, and what all of them explain together.

    Importances are shares of the variance of the scores. They do not sum to `explained`: what columns do only
    together belongs to none of them. One that is below 0 by chance is 0.
    """

    values: Floats
    errors: Floats
    explained: float
    error: float


def importance(points: Floats, scores: Floats, seed: int = 0) -> Importance | None:
    """The importance of each column; None where the trials cannot tell.

    `scores` must be finite; a point may hold NaN where a hyperparameter is not active. The standard errors
    are those of means over trials, each held out once in every repetition.

    >>> draws = stream(0, "example").random((60, 2))
    >>> found = importance(draws, draws[:, 0] ** 2)
    >>> bool(found.values[0] > 0.8), bool(abs(found.values[1]) < 0.1)
    (True, True)
    """
    if len(points) > _MOST:
        kept = np.linspace(0, len(points) - 1, _MOST).round().astype(int)
        points, scores = points[kept], scores[kept]
    if len(points) < LEAST or len(set(scores.tolist())) < 3:
        return None
    points = _filled(points)
    scaled = (scores - scores.mean()) / scores.std()
    alone, together = np.zeros(points.shape), np.zeros(len(points))
    for again in range(_REPEATS):
        part = stream(seed, "importance", "parts", again).permutation(len(points)) % _PARTS
        for one in range(_PARTS):
            held = part == one
            state = derive(seed, "importance", again, one) % 2**32
            forest = fitted(points[~held], scaled[~held], state)
            off = scaled[held] - scaled[~held].mean()
            alone[held] += (
                off[:, None] ** 2 - (off[:, None] - _effects(forest, points[~held], points[held])) ** 2
            )
            together[held] += off**2 - (scaled[held] - forest.predict(points[held])) ** 2
    values, errors = _mean_and_error(alone / _REPEATS)
    explained, error = _mean_and_error(together / _REPEATS)
    if explained <= max(_SOMETHING, error):
        return None
    return Importance(np.maximum(values, 0.0), errors, float(explained), float(error))


def fitted(points: Floats, scores: Floats, state: int, leaf: int = 2) -> Any:
    """A forest that learned these scores."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(_TREES, min_samples_leaf=leaf, random_state=state, n_jobs=1)
    return forest.fit(points, scores)


def _effects(forest: Any, learned: Floats, asked: Floats) -> Floats:
    """What the forest expects at each value of each column, less what it expects of all."""
    behind = learned[_evenly(len(learned), _BEHIND)]
    count, columns = asked.shape
    moved = np.tile(behind, (columns * count, 1)).reshape(columns, count, len(behind), columns)
    for column in range(columns):
        moved[column, :, :, column] = asked[:, column, None]
    told = forest.predict(moved.reshape(-1, columns)).reshape(columns, count, len(behind))
    found: Floats = told.mean(axis=2).T - forest.predict(behind).mean()
    return found


def landscape(points: Floats, scores: Floats, across: int, up: int, size: int = 13, seed: int = 0) -> Floats:
    """The score that a forest expects over two columns from 0 to 1, as a mean over the others' values.

    Rows go along `up`, from 0 to 1.
    """
    behind = _filled(points[_evenly(len(points), 100)])
    forest = fitted(_filled(points), scores, derive(seed, "landscape") % 2**32, leaf=3)
    ticks = np.linspace(0, 1, size)
    asked = np.tile(behind, (size * size, 1))
    asked[:, across] = np.repeat(np.tile(ticks, size), len(behind))
    asked[:, up] = np.repeat(ticks, size * len(behind))
    found: Floats = forest.predict(asked).reshape(size, size, len(behind)).mean(axis=2)
    return found


def _mean_and_error(values: Floats) -> tuple[Any, Any]:
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    found: NDArray[np.int64] = np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
    return found


def _filled(points: Floats) -> Floats:
    """A value off the scale where a hyperparameter is not active."""
    return np.where(np.isnan(points), -1.0, points)
