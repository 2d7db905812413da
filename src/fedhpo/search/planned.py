"""The planned session: every round succeeds, nothing is trained, and nobody is asked.

A method that runs on it shows how many rounds and private releases it will ask for; see
`fedhpo.search.release_plan`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import (
    Answer,
    Cost,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialError,
    Work,
)
from fedhpo.protocol.ledger import Budget, Ledger
from fedhpo.protocol.session import COMPUTED, Each
from fedhpo.search.unrecorded import Scratch, decided
from fedhpo.space.config import Config


class PlannedSession(Scratch):
    """Trials with a round clock and no model.

    Reports hold who trained and no scores, as those of a private run do. A decision is computed unless the
    method says what to take in its place when it is planned.
    """

    virtual = True
    timed = False

    def __init__(
        self, budget: Budget, capabilities: frozenset[str], train_clients: Ints, validation_clients: Ints
    ) -> None:
        self.ledger = Ledger(budget)
        self.capabilities = capabilities
        self.train_clients, self.validation_clients = train_clients, validation_clients
        self.test_clients: Ints = np.empty(0, np.int64)
        self._rounds: dict[int, int] = {}
        self._submitted: dict[int, Work] = {}

    @property
    def trials(self) -> Sequence[int]:
        """The trials started and not stopped."""
        return sorted(self._rounds)

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A clock at 0."""
        self._rounds[trial] = 0

    def fork(self, source: int, target: int) -> None:
        """Copy the clock."""
        self._rounds[target] = self._rounds[source]

    def mix(self, source: int, target: int, share: float) -> None:
        """The clock of `source`, too."""
        self.fork(source, target)

    def stop(self, trial: int) -> None:
        """Free the trial."""
        if trial not in self._rounds:
            raise TrialError(f"there is no trial {trial}")
        del self._rounds[trial]
        self._submitted.pop(trial, None)

    def advance(self, trials: Sequence[tuple[int, Config]]) -> list[str]:
        """Every round succeeds."""
        for number, _ in trials:
            self._rounds[number] += 1
        self.ledger.charge(Cost(rounds=len(trials)))
        return [""] * len(trials)

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """Every member of the cohort replies."""
        return [self._report(piece) for piece in work]

    def submit(self, work: Work) -> None:
        """Begin a round."""
        self._submitted[work.trial] = work

    def next_done(self, trial: int | None = None) -> RoundReport:
        """Rounds end in the order in which they began."""
        if not self._submitted or trial not in (None, *self._submitted):
            raise TrialError("no round is under way" if trial is None else f"no round of trial {trial}")
        return self._report(self._submitted.pop(next(iter(self._submitted)) if trial is None else trial))

    def ready(self) -> list[int]:
        """All rounds that were begun."""
        return list(self._submitted)

    def present(self, time: float, least: int, clients: Ints) -> tuple[float, Ints]:
        """Everybody."""
        return time, clients

    def starts(self, cohort: Sequence[int], time: float, beside: Sequence[Work]) -> list[float]:
        """At once."""
        return [time] * len(cohort)

    def _report(self, work: Work) -> RoundReport:
        self._rounds[work.trial] += 1
        cost, members = Cost(rounds=1, client_rounds=len(work.cohort)), len(work.cohort)
        self.ledger.charge(cost)
        status = np.full(members, Status.OK, np.int8)
        ones, none = np.ones(members, np.int64), np.zeros(members, np.int64)
        return RoundReport.unscored(work, self._rounds[work.trial], True, status, ones, none, cost=cost)

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores are private."""
        raise InputError("privacy: scores are private: use search.evaluate(trials)")

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Nobody can be asked."""
        raise InputError(
            f"the query {task.name!r} cannot be planned: nobody is asked while a method is planned"
        )

    def describe(self) -> dict[str, Any]:
        """That nothing is trained."""
        return {"runtime": "planned"}

    def distances(self, clients: Sequence[int] | Ints, seed: int) -> dict[str, Any] | None:
        """Not known."""
        return None

    def decide(
        self,
        name: str,
        key: Any,
        function: Callable[[], Any],
        *,
        epsilon: float | None = None,
        each: Each = None,
        planned: Any = COMPUTED,
    ) -> Any:
        """What is planned, or else what `function` returns; epsilon is divided later."""
        return decided(function, self.ledger) if planned is COMPUTED else json.loads(canonical(planned))

    def evaluate_beside(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Nobody is asked."""
        return self.evaluate(trials, clients, split)

    def withheld(self, trial: int, round: int) -> RoundReport | None:
        """There were no scores."""
        return None
