"""What every client policy does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from fedhpo.protocol.federation import ClientSide, RoundReport
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
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
class ServerState(Protocol):
    """A policy state that also sets the server's hyperparameters, round by round."""

    def server(self, server: Mapping[str, Any]) -> Mapping[str, Any]:
        """Those of the next round, from those of the trial's config."""


@runtime_checkable
class TimedState(Protocol):
    """A policy state that must know how far its trial's model is trained."""

    def at(self, round: int) -> None:
        """The model has so many rounds behind it; said before every `assign`."""


@runtime_checkable
class LearningState(Protocol):
    """A policy state that reports what it learned, whatever that is: weights of arms, a rate for each client.

    It may have an attribute `learned` besides: what a user can save, or start another search with. It is
    `result.policy`; without it that is the `history`.
    """

    def deployed(self, config: Config) -> Config:
        """The trial's config with the client hyperparameters to deploy, where it knows better ones."""

    def history(self) -> dict[str, Any]:
        """What was learned over time, JSON-able, for result.json."""


def learned_by(state: object) -> Any:
    """What a policy state has learned, for `result.policy`; None of one that does not learn."""
    if not isinstance(state, LearningState):
        return None
    return state.learned if hasattr(state, "learned") else state.history()


@runtime_checkable
class ClientPolicy(Protocol):
    """Chooses client hyperparameters in every round of a trial.

    Its settings are found by `fedhpo.core.settings.settings_of`.
    """

    @property
    def needs(self) -> frozenset[str]:
        """What the federation must be able to do; with `PRODUCTS` reports hold products of updates."""

    @property
    def scores(self) -> tuple[str, ...]:
        """Which scores clients take inside a round."""

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> PolicyState:
        """The policy for a fresh trial under this config."""


@runtime_checkable
class Preparing(Protocol):
    """A client policy that spends rounds of the total before the first trial starts."""

    @property
    def rounds_before(self) -> int:
        """The number of rounds."""

    def prepare(self, search: Search) -> ClientPolicy:
        """Spend them; the policy to go on with."""
