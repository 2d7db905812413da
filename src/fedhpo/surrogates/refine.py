"""Local refinement over a mixed space: points are moved about, by ever smaller steps, and the best kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedhpo.space import Choice
from fedhpo.surrogates.cube import Cube, Floats

#: Random candidates of `best_points`; so many are refined, by these many moves of each width.
_CANDIDATES, _REFINED, _MOVES, _WIDTHS = 512, 5, 20, (0.1, 0.03, 0.01)


def refined(
    cube: Cube,
    centres: Floats,
    worths: Floats,
    worth: Callable[[Floats], Floats],
    widths: Sequence[float],
    moves: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Each centre where its best moves led, and what it is worth there; more is better.

    For each width every centre is moved `moves` times, to points of configs only; it goes to the best of
    these if that is worth more.

    >>> from fedhpo.space import Float, Space
    >>> cube = Cube(Space(client={"lr": Float(0, 1)}))
    >>> worth = lambda points: -np.abs(points[:, 0] - 0.25)
    >>> start = np.array([[0.5]])
    >>> points, _ = refined(cube, start, worth(start), worth, (0.1, 0.01), 50, np.random.default_rng(0))
    >>> bool(abs(points[0, 0] - 0.25) < 0.01)
    True
    """
    for width in widths:
        moved = cube.snap(_moved(cube, np.repeat(centres, moves, axis=0), width, rng))
        gains = worth(moved).reshape(len(centres), moves)
        best = gains.argmax(axis=1)
        better = gains.max(axis=1) > worths
        found = moved.reshape(len(centres), moves, -1)[np.arange(len(centres)), best]
        centres = np.where(better[:, None], found, centres)
        worths = np.where(better, gains.max(axis=1), worths)
    return centres, worths


def _moved(cube: Cube, points: Floats, width: float, rng: np.random.Generator) -> Floats:
    """Each coordinate moves, or one in three stays; a choice is drawn anew once in ten times."""
    moved = points + width * rng.normal(size=points.shape) * (rng.random(points.shape) < 2 / 3)
    for index, axis in enumerate(cube.axes):
        if isinstance(axis, Choice):
            anew = rng.random(len(points)) < 0.1
            moved[:, index] = np.where(anew, rng.random(len(points)), points[:, index])
    return np.clip(moved, 0.0, 1.0)


def best_points(cube: Cube, worth: Callable[[Floats], Floats], rng: np.random.Generator) -> Floats:
    """Points from all over the cube, those worth most first; the best of them were moved to better places.

    >>> from fedhpo.space import Float, Space
    >>> cube = Cube(Space(client={"lr": Float(0, 1)}))
    >>> best = best_points(cube, lambda points: -np.abs(points[:, 0] - 0.25), np.random.default_rng(0))[0, 0]
    >>> bool(abs(best - 0.25) < 0.001)
    True
    """
    points = cube.snap(rng.random((_CANDIDATES, len(cube.axes))))
    best = points[np.argsort(-worth(points), kind="stable")[:_REFINED]]
    points = np.vstack([refined(cube, best, worth(best), worth, _WIDTHS, _MOVES, rng)[0], points])
    return points[np.argsort(-worth(points), kind="stable")]
