"""What every client policy does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from fedhpo.protocol.federation import ClientSide, RoundReport
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.methods.fedex.learned import LearnedPolicy
    from fedhpo.search.search import Search


class PolicyState(Protocol):
    """One trial's policy as it stands; a resumed run builds it again from the recorded reports."""

    def assign(
        self, cohort: Sequence[int], rng: np.random.Generator
    ) -> Mapping[str, Any] | Sequence[Mapping[str, Any]] | ClientSide:
        """The client hyperparameters for this round: for all, for each member, or as a rule."""

    def learn(self, report: RoundReport) -> None:
        """Take in what came back."""


@runtime_checkable
class LearningState(Protocol):
    """A policy that learns which client hyperparameters are good."""

    @property
    def learned(self) -> LearnedPolicy:
        """What it has learned, to be saved and to start another search with."""

    def deployed(self, config: Config) -> Config:
        """The trial's config with the client hyperparameters to deploy."""

    def history(self) -> dict[str, Any]:
        """The policy over time, JSON-able."""


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


@runtime_checkable
class Preparing(Protocol):
    """A client policy that spends rounds of the total before the first trial starts."""

    @property
    def rounds_before(self) -> int:
        """The number of rounds."""

    def prepare(self, search: Search) -> ClientPolicy:
        """Spend them; the policy to go on with."""
