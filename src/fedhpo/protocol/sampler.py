"""What every sampler does.

A sampler keeps no state: what it suggests follows from what was observed, what is pending, how many
suggestions came before, and a generator. So a resumed run needs nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fedhpo.protocol.objective import Score
from fedhpo.space import Space
from fedhpo.space.config import Config


@dataclass(frozen=True)
class Observation:
    """A config and a score that it was seen to have; lower `score.rank_value` is better."""

    trial: int
    config: Config
    score: Score


@runtime_checkable
class Sampler(Protocol):
    """Suggests configs."""

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The next config to try, or None if there is none left.

        `asked` are the configs that must not come again: all of the run so far (under Hyperband, of
        the bracket), whether suggested here or given by the user. With a `pool`, such as the configs
        of a table, only its members may be suggested.
        """


@runtime_checkable
class Limited(Protocol):
    """A sampler that knows how many configs it can suggest, such as a grid. It is optional for a sampler."""

    def limit(self, space: Space) -> int | None:
        """How many configs it could suggest at most without a pool; None for no limit."""


def limit_of(sampler: Sampler, space: Space) -> int | None:
    """How many configs a sampler could suggest at most; None for no limit, and where it does not say."""
    return sampler.limit(space) if isinstance(sampler, Limited) else None


@runtime_checkable
class Recommender(Protocol):
    """A sampler whose model also says which of the trials is best, where scores are too noisy to say it."""

    def recommend(
        self,
        space: Space,
        observations: Sequence[Observation],
        candidates: Sequence[int],
        rng: np.random.Generator,
    ) -> int | None:
        """The number of the best of these trials; None to go by their scores."""
