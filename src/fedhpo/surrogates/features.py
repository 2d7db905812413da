"""Random Fourier features (Rahimi and Recht, 2007): a Gaussian process as a linear model of fixed size.

The kernel is the squared exponential. What was observed comes down to the weights of the features, so that a
party can tell what it learned without telling what it tried.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.space import Space
from fedhpo.surrogates.cube import Cube, Floats


@dataclass(frozen=True)
class RandomFeatures:
    """`count` features over the unit cube of a space; the same for everybody who knows the `seed`.

    `length` is the kernel's length scale, `noise` the standard deviation of an observation, where values have
    a deviation of 1.
    """

    space: Space
    count: int
    seed: int
    length: float = 0.3
    noise: float = 0.3

    def __call__(self, points: Floats) -> Floats:
        """One row of features for each point of the unit cube.

        >>> from fedhpo.space import Float
        >>> map_of = RandomFeatures(Space(client={"lr": Float(0, 1)}), count=2000, seed=0, length=0.5)
        >>> near, far = map_of(np.array([[0.2], [0.7]]))
        >>> bool(abs(near @ far - np.exp(-0.5)) < 0.05)  # the kernel at one length scale
        True
        """
        columns, _ = Cube(self.space).features(points)
        rng = stream(self.seed, "random features")
        directions = rng.normal(0.0, 1.0 / self.length, (columns.shape[1], self.count))
        phases = rng.uniform(0.0, 2 * np.pi, self.count)
        return np.asarray(np.sqrt(2.0 / self.count) * np.cos(columns @ directions + phases))

    def sampled(self, points: Floats, values: Floats, rng: np.random.Generator) -> Floats:
        """Weights drawn from the posterior after these observations, whose scale does not matter.

        >>> from fedhpo.space import Float
        >>> map_of = RandomFeatures(Space(client={"lr": Float(0, 1)}), count=200, seed=0, noise=0.1)
        >>> points = np.linspace(0, 1, 21)[:, None]
        >>> weights = map_of.sampled(points, (points[:, 0] - 0.3) ** 2, np.random.default_rng(0))
        >>> bool(abs(points[np.argmin(map_of(points) @ weights), 0] - 0.3) < 0.15)
        True
        """
        spread = float(values.std()) or 1.0
        targets, mapped = (values - values.mean()) / spread, self(points)
        precision = mapped.T @ mapped + self.noise**2 * np.eye(self.count)
        lower = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, mapped.T @ targets)
        drawn = np.linalg.solve(lower.T, self.noise * rng.normal(size=self.count))
        return np.asarray(mean + drawn)
