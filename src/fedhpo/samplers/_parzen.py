"""Parzen estimators on the unit cube: a kernel around each point, and the prior as one more.

Densities are relative to the prior, which is therefore 1 everywhere, as is the kernel of a point in a
hyperparameter that is not active there.
"""

from __future__ import annotations

import numpy as np
import scipy

from fedhpo.space import Choice, Float, Hyperparameter
from fedhpo.surrogates.cube import Bools, Cube, Floats, cells, edges

_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))


class Parzen:
    """The density of `points`.

    Each hyperparameter has its own estimator, fitted where it is active; with `multivariate` one
    estimator holds them all, each kernel being a product.

    >>> from fedhpo.space import Space
    >>> cube = Cube(Space(client={"lr": Float(0, 1)}))
    >>> density = Parzen(cube, np.array([[0.2], [0.3]])).density(np.array([[0.25], [0.9]]))
    >>> bool(density[0, 0] > 1 > density[1, 0])
    True
    """

    def __init__(self, cube: Cube, points: Floats, multivariate: bool = False) -> None:
        self._cube, self._multivariate = cube, multivariate
        active = cube.active(points)
        if multivariate:
            self._kernels = [_kernel(axis, points[:, i], active[:, i]) for i, axis in enumerate(cube.axes)]
        else:
            self._kernels = [
                _kernel(axis, column := points[active[:, i], i], np.ones(len(column), dtype=np.bool_))
                for i, axis in enumerate(cube.axes)
            ]

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Points of the density, as rows; each hyperparameter on its own unless multivariate."""
        shared = rng.random(count)
        columns = []
        for kernel in self._kernels:
            which = shared if self._multivariate else rng.random(count)
            chosen = (which * (kernel.count + 1)).astype(np.int64)  # the last is the prior
            columns.append(kernel.draw(chosen, rng.random(count)))
        return np.stack(columns, axis=1)

    def density(self, points: Floats) -> Floats:
        """At each point: one number per hyperparameter, or, if multivariate, a single one."""
        if not self._multivariate:
            return np.stack([_mixed(k.at(points[:, i])) for i, k in enumerate(self._kernels)], axis=1)
        active = self._cube.active(points)
        product = np.ones((len(points), self._kernels[0].count))
        for i, kernel in enumerate(self._kernels):
            product *= np.where(active[:, [i]], kernel.at(points[:, i]), 1.0)
        return _mixed(product)[:, None]


def _mixed(kernels: Floats) -> Floats:
    """Every kernel, and the prior, counts the same."""
    mixed: Floats = (kernels.sum(axis=1) + 1.0) / (kernels.shape[1] + 1)
    return mixed


def bandwidths(centres: Floats) -> Floats:
    """The distance to the farther of the two neighbours, clipped (Bergstra et al., 2011, section 4.2).

    The outermost have one neighbour; a single centre has the ends of the interval.

    >>> bandwidths(np.array([0.0, 0.5, 0.75])).tolist()
    [0.5, 0.5, 0.25]
    """
    count = len(centres)
    if not count:
        return np.empty(0)
    if count == 1:
        return np.maximum(centres, 1 - centres)
    order = np.argsort(centres, kind="stable")
    gaps = np.diff(centres[order])
    widths = np.empty(count)
    padded = np.concatenate([gaps[:1], gaps, gaps[-1:]])
    widths[order] = np.maximum(padded[:-1], padded[1:])
    return np.clip(widths, 1 / min(100, 2 + count), 1.0)


class _Ordered:
    """Normal kernels cut off at the ends of the unit interval; a discrete value gets its cell's mass."""

    def __init__(self, axis: Hyperparameter, centres: Floats, active: Bools) -> None:
        self._axis, self._centres, self._active = axis, centres, active
        self.count = len(centres)
        self._widths = np.ones(self.count)
        self._widths[active] = bandwidths(centres[active])
        self._low = scipy.special.ndtr(-centres / self._widths)
        self._mass = scipy.special.ndtr((1 - centres) / self._widths) - self._low

    def at(self, units: Floats) -> Floats:
        if isinstance(self._axis, Float):
            far = (units[:, None] - self._centres) / self._widths
            found = np.exp(-0.5 * far * far) / (self._widths * _ROOT_TWO_PI)
        else:
            low, high = edges(self._axis, units)
            inside = [
                scipy.special.ndtr((edge[:, None] - self._centres) / self._widths) for edge in (low, high)
            ]
            found = (inside[1] - inside[0]) / (high - low)[:, None]
        relative: Floats = np.where(self._active, found / self._mass, 1.0)
        return relative

    def draw(self, chosen: np.ndarray, luck: Floats) -> Floats:
        prior = np.append(~self._active, True)[chosen]
        at = np.minimum(chosen, max(self.count - 1, 0))
        if not self.count:
            return luck
        spread = scipy.special.ndtri(self._low[at] + luck * self._mass[at])
        return np.where(prior, luck, np.clip(self._centres[at] + self._widths[at] * spread, 0.0, 1.0))


class _Unordered:
    """A kernel keeps its option, up to a share that is spread over all and fades with more points."""

    def __init__(self, axis: Hyperparameter, centres: Floats, active: Bools) -> None:
        self._axis, self.count = axis, len(centres)
        options = int(axis.count)
        share = 1 / (self.count + 1)
        weights = np.full((self.count + 1, options), share)
        weights[np.arange(self.count), cells(axis, centres)] += 1
        weights[:-1][~active] = 1.0
        weights[-1] = 1.0
        self._weights = weights / weights.sum(axis=1, keepdims=True)

    def at(self, units: Floats) -> Floats:
        found: Floats = self._weights[:-1, cells(self._axis, units)].T * self._axis.count
        return found

    def draw(self, chosen: np.ndarray, luck: Floats) -> Floats:
        reached = np.cumsum(self._weights, axis=1)[chosen]
        option = np.minimum((luck[:, None] >= reached).sum(axis=1), int(self._axis.count) - 1)
        centre: Floats = (option + 0.5) / self._axis.count
        return centre


def _kernel(axis: Hyperparameter, centres: Floats, active: Bools) -> _Ordered | _Unordered:
    return (_Unordered if isinstance(axis, Choice) else _Ordered)(axis, centres, active)
