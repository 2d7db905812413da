"""How many private releases a method will ask for: it is gone through without training.

Nothing that a schedule does depends on which trials are good, only on how many there are, so a method
that is given models for which every round succeeds counts its own releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.policies.sums import SumsState
from fedhpo.protocol.federation import Cost, Ints
from fedhpo.run import Budget, Ledger
from fedhpo.search.private import ChoiceChannel, PrivateChannel, ValueChannel
from fedhpo.search.search import Event, Search, Trial
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.protocol.sampler import Sampler


class Rehearsed(Protocol):
    """A method, as far as it matters here."""

    @property
    def name(self) -> str:
        """As users know it."""

    def run(self, search: Search) -> Trial:
        """Tune."""


@dataclass(frozen=True)
class Plan:
    """Releases, the trials that are started for them, and how often one client is looked at in rounds."""

    releases: int
    trials: int
    looks: int = 0


def rehearse(
    method: Rehearsed, search: Search, validation_clients: Ints, train_clients: Ints | None = None
) -> Plan:
    """The releases that a method asks for if all goes well.

    Which trials a method drops decides which cohorts there will be. So of looks inside rounds this is what
    they come to if the first trials are kept, which is exact where none are dropped.
    """
    rehearsal = _Rehearsal(search, validation_clients, train_clients)
    try:
        method.run(rehearsal)
    except FedhpoError:
        raise
    except Exception as error:
        raise InputError(
            f"evaluations must be given: {method.name} cannot be gone through without training ({error})"
        ) from error
    channel = rehearsal.channel
    assert isinstance(channel, _CountedValues | _CountedChoices)
    return Plan(channel.counted, len(rehearsal.trials), channel.rounds.looks)


class _CountedValues(ValueChannel):
    counted = 0

    def release(self, search: Search, trials: Sequence[Trial], number: int) -> dict[str, Any]:
        self.counted += len(trials)
        same = [1] * len(trials)
        return {"values": same, "replies": same, "scales": same}


class _CountedChoices(ChoiceChannel):
    counted = 0

    def release(self, search: Search, rung: Sequence[Trial], count: int) -> dict[str, Any]:
        self.counted += 1
        return {"kept": [trial.number for trial in rung[:count]]}


class _Rehearsal(Search):
    """The search as it will begin, on a stage without clients."""

    def __init__(self, search: Search, validation_clients: Ints, train_clients: Ints | None) -> None:
        # Containers are copied: what is rehearsed must leave no trace in the search itself.
        kept = {key: copy(v) if isinstance(v, list | dict | set) else v for key, v in vars(search).items()}
        vars(self).update(kept)
        self.trials = []
        self._on_event = _unheard
        clients = validation_clients if train_clients is None else train_clients
        self.federation = _Stage(search.total, validation_clients, clients)  # type: ignore[assignment]
        privacy = search.evaluator.privacy
        assert privacy is not None
        self.channel = (_CountedValues if privacy.releases_values else _CountedChoices)(privacy, None)

    def _next_config(self, sampler: Sampler) -> Config:
        return self.space.default()

    def round(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            if isinstance(trial.policy, SumsState) and isinstance(self.channel, PrivateChannel):
                looks = trial.policy.looks if trial.round == 0 else 1  # the first has a baseline of its own
                self.channel.rounds.plan(self.members(trial, 0)[0], looks)
            trial.round += 1
        self.ledger.charge(Cost(rounds=len(trials)))


class _Stage:
    """As much of a federation as a schedule touches."""

    replaying = False
    capabilities: frozenset[str] = frozenset()

    def __init__(self, total: int, validation_clients: Ints, train_clients: Ints) -> None:
        self.ledger = Ledger(Budget(rounds=total))
        self.validation_clients = validation_clients
        self.train_clients = train_clients
        self.trials: list[int] = []

    def start(self, trial: int, model: object, seed: int) -> None:
        self.trials.append(trial)

    def stop(self, trial: int) -> None:
        self.trials.remove(trial)


def _unheard(event: Event) -> None:
    pass
