"""Random search: independent draws from the space (Bergstra and Bengio, 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.protocol.sampler import Observation, known
from fedhpo.samplers.untried import finite_size, untried
from fedhpo.space import Space
from fedhpo.space.config import Config

#: So many draws from the prior, then what is left of a finite space is looked through.
_TRIES = 100


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
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """A config drawn from the space, or the pool, that is not among `asked`."""
        if pool is None:
            tried = known(asked)
            for _ in range(_TRIES):
                config = space.sample(rng)
                if config not in tried:
                    return config
        left = untried(space, asked, rng, pool)
        return left[0] if left else None

    def limit(self, space: Space) -> int | None:
        """The number of configs in a finite space."""
        return finite_size(space)
