"""Regressors from points of the unit cube to losses: random forests, a Gaussian process, or cones.

All see the columns of `Cube.features`: one for each number or ordered list, one for each option of a
choice. What is not active in a config sits in the middle of its range, and the choice that it hangs on has
columns of its own to tell the two apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.streams import derive
from fedhpo.surrogates.cube import Cube, Floats
from fedhpo.surrogates.process import Kernel, Process, fit, one_thread

TREES = 100
#: Above it, the cubic cost of a Gaussian process is minutes.
MOST_OF_A_PROCESS = 1500


class Regressor(ABC):
    """Fitted to pairs once, when it is made; each pair has a weight (their mean is 1)."""

    def __init__(self, cube: Cube, points: Floats, losses: Floats, weights: Floats, seed: int) -> None:
        self.cube = cube
        self._fit(cube.features(points)[0], losses, weights, seed)

    @abstractmethod
    def _fit(self, features: Floats, losses: Floats, weights: Floats, seed: int) -> None:
        """Learn."""

    @abstractmethod
    def spread(self, points: Floats) -> tuple[Floats, Floats]:
        """The mean and the uncertainty (a standard deviation) of the prediction at each point."""

    def predict(self, points: Floats) -> Floats:
        """The mean alone."""
        return self.spread(points)[0]


class Forest(Regressor):
    """A random forest of 100 trees (Breiman, 2001); its uncertainty is the deviation over the trees."""

    trees: ClassVar[int] = TREES

    def _fit(self, features: Floats, losses: Floats, weights: Floats, seed: int) -> None:
        from sklearn.ensemble import RandomForestRegressor

        state = derive(seed, "forest") % 2**32
        self.forest: Any = RandomForestRegressor(self.trees, random_state=state)
        self.forest.fit(features.astype(np.float32), losses, sample_weight=weights)

    def spread(self, points: Floats) -> tuple[Floats, Floats]:
        features = self.cube.features(points)[0].astype(np.float32)
        trees = np.stack([tree.predict(features, check_input=False) for tree in self.forest.estimators_])
        return trees.mean(axis=0), trees.std(axis=0)


class Forests(Forest):
    """Three forests averaged, which is one of 300 trees: a seed moves its minimum less than that of one."""

    trees = 3 * TREES


class GaussianProcess(Regressor):
    """The process of `fedhpo.samplers.GP`; a pair of half the weight has twice the noise variance."""

    def _fit(self, features: Floats, losses: Floats, weights: Floats, seed: int) -> None:
        if len(losses) > MOST_OF_A_PROCESS:
            raise InputError(
                f"regressor='gp' takes at most {MOST_OF_A_PROCESS} pairs, found {len(losses)}: "
                "let the parties send fewer, or use 'forest'"
            )
        owners = self.cube.features(self.cube.points([]))[1]
        rng = np.random.default_rng(derive(seed, "gp"))
        # Nothing is cut off here, as the sampler does: to know where a party is badly off is the point.
        self._centre, self._unit = float(losses.mean()), float(losses.std()) or 1.0
        values = (losses - self._centre) / self._unit
        with one_thread():
            kernel = fit(features, owners, values, np.zeros(len(losses)), rng)
        noiseless = Kernel(kernel.scales, kernel.signal, 0.0)
        self._process = Process(noiseless, features, owners, values, kernel.noise / weights)

    def spread(self, points: Floats) -> tuple[Floats, Floats]:
        mean, deviation = self._process.marginals(self.cube.features(points)[0])
        return self._centre + self._unit * mean, self._unit * deviation


class Cones(Regressor):
    """For a few pairs, each a good config: the loss grows by 1 for a step of 1 in the cube away from one.

    Its value at a point is the least over the pairs of loss plus distance, its uncertainty that distance. The
    mean over parties that sent one pair each is lowest at the geometric median of their configs, which one
    party that is far off moves little.
    """

    def _fit(self, features: Floats, losses: Floats, weights: Floats, seed: int) -> None:
        self._features, self._losses = features, losses

    def spread(self, points: Floats) -> tuple[Floats, Floats]:
        apart = self.cube.features(points)[0][:, None, :] - self._features
        distances = np.sqrt(np.square(apart).sum(axis=2))
        values = self._losses + distances
        lowest = values.argmin(axis=1)[:, None]
        found, near = (np.take_along_axis(each, lowest, axis=1)[:, 0] for each in (values, distances))
        return found, near


REGRESSORS: dict[str, type[Regressor]] = {
    "forests": Forests,
    "forest": Forest,
    "gp": GaussianProcess,
    "cones": Cones,
}


def regressor_class(name: str) -> type[Regressor]:
    """The regressor of a name."""
    if name not in REGRESSORS:
        raise unknown_name("regressor", name, REGRESSORS)
    return REGRESSORS[name]
