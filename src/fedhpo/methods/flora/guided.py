"""A sampler that begins with what a loss surface recommends, and then looks for better around it.

The paper leaves hyperparameters of the aggregator out: no party sees them. A few more federated trainings can
tune them too, with the surface as prior mean: over the whole space the loss is the surface's prediction for
the client and model hyperparameters plus a Gaussian process that learns what the surface does not know. What
it knows already need not be found again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.protocol.sampler import Observation
from fedhpo.samplers.untried import finite_size, untried
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.acquisition import log_improvement
from fedhpo.surrogates.cube import Cube, Floats, sobol
from fedhpo.surrogates.process import Process, fit
from fedhpo.surrogates.refine import refined

if TYPE_CHECKING:
    from fedhpo.methods.flora.surfaces import Surface

#: What parties searched over; the rest of a config is the server's.
LOCAL = ("client", "model")

#: Quasi-random candidates; then so many of the best are refined, each by these many moves of each width.
_CANDIDATES, _REFINED, _MOVES, _WIDTHS = 512, 5, 20, (0.3, 0.1, 0.03, 0.01)
#: How far the federated loss may stray from the surface, as long as only one training is known.
_STRAY = 0.05


@dataclass(frozen=True)
class Guided:
    """Suggests `found`, then what most likely improves on it; `surface` is fitted when it is needed."""

    found: Config
    surface: Callable[[], Surface] = field(repr=False)

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The recommended config, then the largest expected improvement among those not tried."""
        if self.found not in asked:
            return self.found
        cube, surface = Cube(space), self.surface()
        known = [seen for seen in observations if math.isfinite(seen.score.rank_value)]
        worth = _Improvement(cube, surface, known, rng)
        size = finite_size(space)
        if size is not None and size <= _CANDIDATES:
            left = untried(space, asked, rng)
            return left[int(np.argmax(worth(cube.points(left))))] if left else None
        points = self._candidates(cube, rng)
        worths = worth(points)
        best = np.argsort(-worths, kind="stable")[:_REFINED]
        points, worths = refined(cube, points[best], worths[best], worth, _WIDTHS, _MOVES, rng)
        for place in np.argsort(-worths, kind="stable"):
            config = space.from_unit(points[place])
            if config not in asked:
                return config
        left = untried(space, asked, rng)
        return left[0] if left else None

    def _candidates(self, cube: Cube, rng: np.random.Generator) -> Floats:
        """Points from all over the space; in every other one only the server's hyperparameters move."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            points = sobol(len(cube.axes), _CANDIDATES, rng)
        local = [place for place, name in enumerate(cube.space.names) if name.partition(".")[0] in LOCAL]
        points[::2, local] = cube.points([self.found])[:, local]
        return cube.snap(points)

    def limit(self, space: Space) -> int | None:
        """The number of configs in a finite space."""
        return finite_size(space)


class _Improvement:
    """The log of the expected improvement under the surface plus a process of what it does not know."""

    def __init__(
        self, cube: Cube, surface: Surface, known: Sequence[Observation], rng: np.random.Generator
    ) -> None:
        self._cube, self._surface = cube, surface
        self._process: Process | None = None
        if not known:
            return
        points = cube.points(seen.config for seen in known)
        off = np.array([seen.score.rank_value for seen in known]) - self._prior(points)
        self._shift, self._spread = float(off.mean()), max(float(off.std()), _STRAY / len(known))
        values = (off - self._shift) / self._spread
        errors = np.array([seen.score.standard_error for seen in known])
        noise = (np.where(np.isfinite(errors), errors, 0.0) / self._spread) ** 2
        features, owners = cube.features(points)
        kernel = fit(features, owners, values, noise, rng)
        self._process = Process(kernel, features, owners, values, noise)
        self._best = float(self._total(points)[0].min())

    def _prior(self, points: Floats) -> Floats:
        configs = (self._cube.space.from_unit(point) for point in points)
        return self._surface.predict([local_part(config) for config in configs])

    def _total(self, points: Floats) -> tuple[Floats, Floats]:
        assert self._process is not None
        mean, deviation = self._process.marginals(self._cube.features(points)[0])
        return self._prior(points) + self._shift + self._spread * mean, self._spread * deviation

    def __call__(self, points: Floats) -> Floats:
        if self._process is None:  # no training worked out: go by the surface alone
            return -self._prior(points)
        return log_improvement(*self._total(points), self._best)


def local_part(config: Config) -> Config:
    """What a party sees of a config.

    >>> local_part(Config(client={"lr": 0.1}, server={"lr": 1.0}))
    Config(client={'lr': 0.1})
    """
    return Config(client=config.client, model=config.model)


def local_space(space: Space) -> Space:
    """What parties can search over."""
    found = space.subspace(LOCAL)
    if not found.names:
        raise InputError(
            "flora has nothing to tune: local searches see client and model hyperparameters only"
        )
    return found
