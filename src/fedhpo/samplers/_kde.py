"""Kernel density estimates on the unit cube as BOHB makes them (Falkner et al., 2018, section 3.2).

One product kernel around each point: normal for ordered hyperparameters, Aitchison and Aitken's for choices.
Bandwidths follow the normal reference rule, one per hyperparameter, as in statsmodels.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from fedhpo.space import Choice
from fedhpo.surrogates.cube import Bools, Cube, Floats, cells

#: No bandwidth is smaller, so that points which agree do not close a hyperparameter.
LEAST_BANDWIDTH = 1e-3


class KDE:
    """The density of `points`, with bandwidths widened by a factor where that is asked for.

    A hyperparameter that is not active, at a kernel's centre or where the density is asked for, says nothing:
    its part of the product is 1, that of the prior.
    """

    def __init__(self, cube: Cube, points: Floats) -> None:
        self._cube, self._points, self._active = cube, points, cube.active(points)
        self.bandwidths = bandwidths(cube, points, self._active)

    def log_density(self, points: Floats, factor: float = 1.0) -> Floats:
        """The logarithm of the density at each point, relative to the prior."""
        active = self._cube.active(points)
        logs = np.zeros((len(points), len(self._points)))
        for i, axis in enumerate(self._cube.axes):
            both = active[:, [i]] & self._active[:, i]
            width = self.bandwidths[i] * factor
            if isinstance(axis, Choice):
                found = _log_choice(axis, points[:, i], self._points[:, i], width)
            else:
                far = (points[:, [i]] - self._points[:, i]) / width
                found = -0.5 * far * far - math.log(width * math.sqrt(2 * math.pi))
            logs += np.where(both, found, 0.0)
        density: Floats = scipy.special.logsumexp(logs, axis=1) - math.log(len(self._points))
        return density

    def draw(self, count: int, factor: float, rng: np.random.Generator) -> Floats:
        """Points near the kernels' centres: normal steps cut off at the ends of the range."""
        chosen = rng.integers(len(self._points), size=count)
        centres, active = self._points[chosen], self._active[chosen]
        luck = rng.random(centres.shape)
        drawn = np.empty_like(centres)
        for i, axis in enumerate(self._cube.axes):
            width = self.bandwidths[i] * factor
            if isinstance(axis, Choice):
                stays = rng.random(count) >= min(width, 1.0)
                near = np.where(stays, centres[:, i], luck[:, i])
            else:
                low, high = (
                    scipy.special.ndtr(-centres[:, i] / width),
                    scipy.special.ndtr((1 - centres[:, i]) / width),
                )
                near = centres[:, i] + width * scipy.special.ndtri(low + luck[:, i] * (high - low))
            drawn[:, i] = np.where(active[:, i], np.clip(near, 0.0, 1.0), luck[:, i])
        return self._cube.snap(drawn)


def bandwidths(cube: Cube, points: Floats, active: Bools) -> Floats:
    """The normal reference rule: 1.06 times the standard deviation times n^(-1 / (4 + d)).

    The variance of a choice is half the chance that two of its values differ. For two options that is the
    variance of their numbers 0 and 1, and it does not depend on the options' order.

    >>> from fedhpo.space import Float, Space
    >>> cube = Cube(Space(client={"lr": Float(0, 1)}))
    >>> found = bandwidths(cube, np.array([[0.0], [1.0]]), np.ones((2, 1), bool))
    >>> bool(np.isclose(found[0], 1.06 * 0.5 * 2 ** -0.2))
    True
    """
    count, dimensions = points.shape
    deviations = np.zeros(dimensions)
    for i, axis in enumerate(cube.axes):
        values = points[active[:, i], i]
        if not len(values):
            continue
        if isinstance(axis, Choice):
            shares = np.bincount(cells(axis, values)) / len(values)
            deviations[i] = math.sqrt(max(0.0, 1 - float(shares @ shares)) / 2)
        else:
            deviations[i] = values.std()
    found: Floats = np.maximum(1.06 * deviations * count ** (-1 / (4 + dimensions)), LEAST_BANDWIDTH)
    return found


def _log_choice(axis: Choice, at: Floats, centres: Floats, width: float) -> Floats:
    """Aitchison and Aitken's kernel, relative to the prior: at most as wide as the prior itself."""
    options = int(axis.count)
    share = min(width, 1 - 1 / options)
    same = cells(axis, at)[:, None] == cells(axis, centres)
    found: Floats = np.log(options * np.where(same, 1 - share, share / max(1, options - 1)))
    return found
