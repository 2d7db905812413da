"""What every client policy does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedhpo.config import Config
from fedhpo.federation.protocol import ClientSide, RoundReport
from fedhpo.space import Space


class PolicyState(Protocol):
    """One trial's policy as it stands; a resumed run builds it again from the recorded reports."""

    def assign(
        self, cohort: Sequence[int], rng: np.random.Generator
    ) -> Mapping[str, Any] | Sequence[Mapping[str, Any]] | ClientSide:
        """The client hyperparameters for this round: for all, for each member, or as a rule."""

    def learn(self, report: RoundReport) -> None:
        """Take in what came back."""


@runtime_checkable
class ClientPolicy(Protocol):
    """Chooses client hyperparameters in every round of a trial."""

    @property
    def needs(self) -> frozenset[str]:
        """What the federation must be able to do."""

    @property
    def scores(self) -> tuple[str, ...]:
        """Which scores clients take inside a round."""

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> PolicyState:
        """The policy for a fresh trial under this config."""

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able."""
