"""Grid search: every combination of evenly spaced values, in the sampling scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.core.settings import check_settings, whole_number
from fedhpo.protocol.sampler import Observation, known
from fedhpo.space import Space
from fedhpo.space.config import Config


@dataclass(frozen=True)
class Grid:
    """Every combination; `points` values of each continuous hyperparameter, or a number by name."""

    points: int | Mapping[str, int] = 3

    def __post_init__(self) -> None:
        check_settings(self)
        named = self.points.items() if isinstance(self.points, Mapping) else [("points", self.points)]
        for name, number in named:
            whole_number(f"points[{name!r}]" if isinstance(self.points, Mapping) else name, number)
        # In one order, because a run is known by its settings as text.
        if isinstance(self.points, Mapping):
            object.__setattr__(self, "points", dict(sorted(self.points.items())))

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The first config of the grid, or of the pool, that was not tried yet."""
        tried = known(asked)
        grid = space.grid(self.points) if pool is None else pool
        return next((config for config in grid if config not in tried), None)

    def limit(self, space: Space) -> int | None:
        """The size of the grid."""
        return len(list(space.grid(self.points)))
