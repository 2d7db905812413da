"""What every sampler does.

A sampler keeps no state: what it suggests follows from what was observed, what is pending, how many
suggestions came before, and a generator. So a resumed run needs nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import is_not
from typing import Protocol, overload, runtime_checkable

import numpy as np

from fedhpo.protocol.objective import Score
from fedhpo.space import Space
from fedhpo.space.config import Config


@dataclass(frozen=True)
class Observation:
    """A config and a score that it was seen to have; lower `score.rank_value` is better.

    `final` says whether it is the score of a full training.
    """

    trial: int
    config: Config
    score: Score
    final: bool = False


class Asked(Sequence[Config]):
    """The configs that were asked for: a sequence that knows at once whether it holds a config.

    >>> config = Config(client={"lr": 0.1})
    >>> asked = Asked().grown([config])
    >>> config in asked, len(asked), len(asked.grown([]))
    (True, 1, 0)
    """

    def __init__(self) -> None:
        self._configs: list[Config] = []
        self.known: set[Config] = set()

    def grown(self, configs: Sequence[Config]) -> Asked:
        """One that holds these: itself with the new ones, unless others went or changed."""
        kept = len(self._configs)
        if kept > len(configs) or any(map(is_not, self._configs, configs)):
            return Asked().grown(configs)
        self._configs += configs[kept:]
        self.known.update(configs[kept:])
        return self

    def __contains__(self, config: object) -> bool:
        return config in self.known

    def __len__(self) -> int:
        return len(self._configs)

    @overload
    def __getitem__(self, place: int) -> Config: ...

    @overload
    def __getitem__(self, place: slice) -> list[Config]: ...

    def __getitem__(self, place: int | slice) -> Config | list[Config]:
        return self._configs[place]

    def __iter__(self) -> Iterator[Config]:
        return iter(self._configs)


def known(asked: Sequence[Config]) -> AbstractSet[Config]:
    """The configs that were asked for, as a set, which is at hand where the search keeps it."""
    return asked.known if isinstance(asked, Asked) else set(asked)


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
