"""Random search: independent draws from the space (Bergstra and Bengio, 2012)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.config import Config
from fedhpo.samplers.base import Observation
from fedhpo.space import Space

_TRIES = 1000


@dataclass(frozen=True)
class Random:
    """Draws configs at random, never one that was tried before.

    >>> from fedhpo.space import Choice
    >>> space = Space(client={"epochs": Choice([1, 2])})
    >>> asked = [space.complete({"client": {"epochs": 1}})]
    >>> Random().suggest(space, [], asked, np.random.default_rng(0))
    Config(client={'epochs': 2})
    """

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
    ) -> Config | None:
        """A config drawn from the space that is not among `asked`."""
        tried = set(asked)
        for _ in range(_TRIES):
            config = space.sample(rng)
            if config not in tried:
                return config
        # Hardly anything is left of a finite space: look it through.
        left = [config for config in space.grid(2) if config not in tried]
        return left[rng.integers(len(left))] if left and math.isfinite(space.size) else None

    def limit(self, space: Space) -> int | None:
        """The number of configs in a finite space."""
        return int(space.size) if math.isfinite(space.size) else None
