"""How many private releases a method will ask for, counted by a pass without training.

Nothing that a schedule does depends on which trials are good, only on how many there are, so a method
that is given models for which every round succeeds counts its own releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fedhpo.core.errors import Concerns, FedhpoError, InputError
from fedhpo.policies.sums import SumsState
from fedhpo.protocol.federation import Ints
from fedhpo.protocol.ledger import Budget
from fedhpo.search.account import BasicAccount, RotationAccount, RotationPlan
from fedhpo.search.planned import PlannedSession
from fedhpo.search.private import ChoiceChannel, PrivateChannel, ValueChannel
from fedhpo.search.rounds import cohort_of
from fedhpo.search.search import Search
from fedhpo.search.trial import ELIMINATED, Trial


class Planned(Protocol):
    """A method, as far as it matters here."""

    @property
    def name(self) -> str:
        """As users know it."""

    def run(self, search: Search) -> Trial:
        """Tune."""


@dataclass(frozen=True)
class Plan:
    """Releases, the trials that are started for them, and how often one client is looked at in rounds.

    `rotation` is what they come to by client, where they rotate; `keeps_own` says whether the user's own
    config (trial 0) is there at the end beside others, whichever trials are good.
    """

    releases: int
    trials: int
    looks: int = 0
    rotation: RotationPlan | None = None
    keeps_own: bool = True


def planned_releases(
    method: Planned,
    search: Search,
    validation_clients: Ints,
    train_clients: Ints | None = None,
    capabilities: frozenset[str] = frozenset(),
    *,
    baseline: bool = False,
) -> Plan:
    """The releases that a method asks for if all goes well, and a comparison with the `baseline` at the end.

    Which trials a method drops decides which cohorts there will be. So of looks inside rounds this is what
    they come to if the first trials are kept, which is exact where none are dropped.
    """
    privacy = search.evaluator.privacy
    assert privacy is not None
    account: RotationAccount | BasicAccount
    account = RotationAccount() if privacy.rotates else BasicAccount(None, looks=2**62)
    channel = (_CountedValues if privacy.releases_values else _CountedChoices)(privacy, None, account)
    clients = validation_clients if train_clients is None else train_clients
    session = PlannedSession(Budget(rounds=search.total), capabilities, clients, validation_clients)
    planned = search.afresh(session, channel)
    try:
        method.run(planned)
    except InputError as error:
        if error.concerns == Concerns.METHOD:
            raise
        raise InputError(f"{method.name}: {error}") from error
    except FedhpoError:
        raise
    except Exception as error:
        raise InputError(
            f"evaluations must be given: {method.name} cannot be gone through without training ({error})"
        ) from error
    if baseline and privacy.releases_values and search.comparison is None:  # both are scored once more
        account.ask(planned, 2, values=True)
        channel.counted += 2
    looks = max(account.looked.values(), default=0)
    extra = max(0, (privacy.evaluations or 0) - channel.counted - looks)
    rotation = account.planned(planned, extra) if isinstance(account, RotationAccount) else None
    stay = all(trial.status != ELIMINATED and not trial.replacements for trial in planned.trials)
    return Plan(channel.counted, len(planned.trials), looks, rotation, stay and len(planned.trials) > 1)


class _Counted(PrivateChannel):
    """Counts releases instead of making them."""

    counted = 0

    def skip(self, search: Search, trials: Sequence[Trial]) -> None:
        """Count how often each member of the cohorts will be looked at."""
        for trial in trials:
            if isinstance(trial.policy, SumsState):
                looks = trial.policy.looks if trial.round == 0 else 1  # the first has a baseline of its own
                self.account.hear(search, search.may_hear(cohort_of(search, trial, 0)[0]), looks)


class _CountedValues(_Counted, ValueChannel):
    def release(self, search: Search, trials: Sequence[Trial], number: int) -> dict[str, Any]:
        self.counted += len(trials)
        self.account.ask(search, len(trials), values=True)
        same = [1] * len(trials)
        return {"values": same, "replies": same, "scales": same}


class _CountedChoices(_Counted, ChoiceChannel):
    def release(self, search: Search, rung: Sequence[Trial], count: int, looks: int = 1) -> dict[str, Any]:
        self.counted += 1
        self.account.ask(search, len(rung), values=False, looks=looks)
        return {"kept": [trial.number for trial in rung[:count]]}
