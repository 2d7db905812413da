"""A sampler of one's own: hill climbing. Used from hill_climbing.toml.

A sampler keeps no state. What it suggests follows from what was observed, so that a resumed run needs nothing
of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import fedhpo as fh
from fedhpo.samplers import Observation, Random


@dataclass(frozen=True)
class HillClimbing:
    """Step from the best config so far to one near it; begin with `startup` configs at random.

    `step` is how far a hyperparameter moves at most, as a share of its range.
    """

    startup: int = 3
    step: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.step <= 1:
            raise fh.InputError(f"step must lie in (0, 1], not {self.step!r}")

    def suggest(
        self,
        space: fh.Space,
        observations: Sequence[Observation],
        asked: Sequence[fh.Config],
        rng: np.random.Generator,
        pool: Sequence[fh.Config] | None = None,
    ) -> fh.Config | None:
        """The next config to try; None if there is none left."""
        known = [seen for seen in observations if np.isfinite(seen.score.rank_value)]
        if len(known) < self.startup:
            return Random().suggest(space, observations, asked, rng, pool)
        best = min(known, key=lambda seen: seen.score.rank_value).config
        if pool is not None:  # the configs of a table: the nearest that was not tried
            left = [config for config in pool if config not in set(asked)]
            return min(left, key=lambda config: space.distance(best, config), default=None)
        for _ in range(100):
            config = space.perturb(best, self.step, 0.0, rng)
            if config not in asked:
                return config
        return Random().suggest(space, observations, asked, rng)

    def limit(self, space: fh.Space) -> int | None:
        """How many configs it could suggest."""
        return Random().limit(space)
