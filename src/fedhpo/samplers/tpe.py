"""The tree-structured Parzen estimator (Bergstra et al., 2011).

The share `gamma` of the observations with the best scores makes a density l, the others a density g.
Candidates are drawn from l; the one with the largest l/g is suggested, which has the largest expected
improvement under this model (section 4). With scores at several rungs it learns from the highest rung
that has enough of them, as in BOHB (Falkner et al., 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.protocol.sampler import Observation, known
from fedhpo.samplers._parzen import Parzen
from fedhpo.samplers._rungs import highest_rung
from fedhpo.samplers.random import Random
from fedhpo.samplers.untried import finite_size, untried
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import Cube, Floats

#: So often it is drawn again where a suggestion was tried before, until what is left is looked through.
_TRIES = 10


@dataclass(frozen=True)
class TPE:
    """Suggests what looks more like good configs than like bad ones.

    Parameters
    ----------
    multivariate
        One density over all hyperparameters together; False for one density for each, as in the paper of
        2011, which finds worse configs where hyperparameters depend on each other.
    startup
        Configs are random until a rung has so many finite scores; by default one more than there are
        hyperparameters. Keep it well below the number of trials: up to it, this is random search.
    gamma
        The share of observations that count as good.
    candidates
        How many draws from l compete.
    random_share
        The share of suggestions that are random whatever was observed (1/3 in BOHB).
    """

    multivariate: bool = True
    startup: int | None = None
    gamma: float = 0.1
    candidates: int = 24
    random_share: float = 0.0

    def __post_init__(self) -> None:
        check_settings(self)
        if self.startup is not None and self.startup < 1:
            raise InputError(f"startup must be at least 1, not {self.startup}")
        if not 0 < self.gamma < 1:
            raise InputError(f"gamma must be a share in (0, 1), not {self.gamma!r}")
        if self.candidates < 1:
            raise InputError(f"candidates must be at least 1, not {self.candidates}")
        if not 0 <= self.random_share <= 1:
            raise InputError(f"random_share must be a share in [0, 1], not {self.random_share!r}")

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The best of `candidates` draws from the density of good configs, none of them tried before."""
        least = space.dimensions + 1 if self.startup is None else self.startup
        rung = highest_rung(observations, least)
        if not rung or not space.dimensions or rng.random() < self.random_share:
            return Random().suggest(space, observations, asked, rng, pool)
        model = _Model(self, Cube(space), rung)
        if pool is None:
            tried = known(asked)
            for _ in range(_TRIES):
                config = space.from_unit(model.draw(self.candidates, rng))
                if config not in tried:
                    return config
        return model.choose(untried(space, asked, rng, pool), self.candidates, rng)

    def limit(self, space: Space) -> int | None:
        """The number of configs in a finite space."""
        return finite_size(space)


class _Model:
    """The densities of good and of bad configs."""

    def __init__(self, settings: TPE, cube: Cube, rung: Sequence[Observation]) -> None:
        values = np.array([seen.score.rank_value for seen in rung])
        points = cube.points(seen.config for seen in rung)
        best_first = np.argsort(values, kind="stable")
        count = min(math.ceil(settings.gamma * len(rung)), int(np.isfinite(values).sum()))
        self._cube = cube
        self._good = Parzen(cube, points[best_first[:count]], settings.multivariate)
        self._bad = Parzen(cube, points[best_first[count:]], settings.multivariate)

    def draw(self, candidates: int, rng: np.random.Generator) -> Floats:
        """The best of some draws: as a whole, or of each hyperparameter where each has a density."""
        drawn = self._good.draw(candidates, rng)
        best = np.argmax(self._good.density(drawn) / self._bad.density(drawn), axis=0)
        point: Floats = drawn[best, np.arange(drawn.shape[1])]
        return point

    def choose(self, configs: Sequence[Config], candidates: int, rng: np.random.Generator) -> Config | None:
        """The same among given configs: some are drawn by their density, the best of these wins."""
        if not configs:
            return None
        points = self._cube.points(configs)
        good, bad = self._good.density(points), self._bad.density(points)
        if good.shape == points.shape:
            active = self._cube.active(points)
            good, bad = (np.where(active, density, 1.0) for density in (good, bad))
        likely = good.prod(axis=1)
        drawn = rng.choice(len(configs), candidates, p=likely / likely.sum())
        return configs[int(drawn[np.argmax((good / bad).prod(axis=1)[drawn])])]
