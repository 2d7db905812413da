"""Cooling: the clients' learning rate falls by a cosine at the end of a training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.protocol.federation import BEFORE, RoundReport
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.search.search import Search

RATE = "lr"


def cooled(rate: float, round: int, begin: int, rounds: int) -> float:
    """The rate of the round after `round` of `rounds`: whole until `begin`, then falling by a cosine to 0.

    >>> [cooled(1.0, r, 8, 11) for r in (0, 7, 8, 9, 10)]
    [1.0, 1.0, 0.853..., 0.5, 0.146...]
    """
    if round < begin:
        return rate
    return rate * (1 + math.cos(math.pi * (round - begin + 1) / (rounds - begin + 1))) / 2


class _CoolingState:
    def __init__(self, client: Mapping[str, Any], begin: int, rounds: int) -> None:
        self._client, self._begin, self._rounds, self._round = client, begin, rounds, 0

    def at(self, round: int) -> None:
        self._round = round

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> Mapping[str, Any]:
        if self._round < self._begin:
            return self._client
        return {**self._client, RATE: cooled(self._client[RATE], self._round, self._begin, self._rounds)}

    def learn(self, report: RoundReport) -> None:
        pass


@dataclass(frozen=True)
class Cooling:
    """`config.client` for everybody, whose rate `lr` falls by a cosine over the last `share` of `rounds`.

    `rounds` are those of a full training by default. What is reported and deployed is the rate before.
    """

    share: float = 0.2
    rounds: int | None = None

    #: It spends no rounds of its own before the search; see `prepare`.
    rounds_before = 0

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 < self.share <= 1:
            raise InputError(f"share must lie in (0, 1], not {self.share!r}")

    @property
    def needs(self) -> frozenset[str]:
        """Nothing."""
        return frozenset()

    @property
    def scores(self) -> tuple[str, ...]:
        """Before training."""
        return (BEFORE,)

    def prepare(self, search: Search) -> Cooling:
        """The same policy, knowing how long a full training is."""
        return self if self.rounds is not None else replace(self, rounds=search.rounds)

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> _CoolingState:
        """Refuses a config without a learning rate."""
        if self.rounds is None:
            raise InputError("rounds must be given: at the end of how many rounds the rate falls")
        if RATE not in config.client:
            raise InputError(
                f"cooling needs a client hyperparameter {RATE!r}; there are {list(config.client)}"
            )
        begin = self.rounds - max(1, round(self.share * self.rounds))
        return _CoolingState(config.client, begin, self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "cooling", **asdict(self)}
