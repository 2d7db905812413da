"""The fixed policy: every client trains with the trial's own client hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedhpo.protocol.federation import BEFORE, RoundReport
from fedhpo.space import Space
from fedhpo.space.config import Config


@dataclass(frozen=True)
class _FixedState:
    client: Mapping[str, Any]

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> Mapping[str, Any]:
        return self.client

    def learn(self, report: RoundReport) -> None:
        pass


@dataclass(frozen=True)
class Fixed:
    """`config.client` for everybody. Clients score the model before training, for the learning curve."""

    @property
    def needs(self) -> frozenset[str]:
        """Nothing."""
        return frozenset()

    @property
    def scores(self) -> tuple[str, ...]:
        """Before training."""
        return (BEFORE,)

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> _FixedState:
        """Nothing to begin with."""
        return _FixedState(config.client)

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "fixed"}
