"""A method on a table, as fast as can be: nothing is recorded, and a round is a step of a clock.

`fedhpo.tune` on a `TabularFederation` takes the same decisions and comes to the same result; it keeps a
record of every round on the way. Here a search of 6,000 rounds takes a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedhpo.core.errors import InputError
from fedhpo.methods import Tuner
from fedhpo.protocol.federation import Cost
from fedhpo.protocol.ledger import Budget
from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import Objective
from fedhpo.research.incumbents import note
from fedhpo.research.tables.federation import TabularFederation
from fedhpo.research.tables.surrogate_federation import tabular_federation
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.events import Event
from fedhpo.search.search import Search
from fedhpo.search.trial import Trial
from fedhpo.search.unrecorded import UnrecordedSession
from fedhpo.space.config import Config
from fedhpo.tuning.setup import prepare

if TYPE_CHECKING:
    from fedhpo.research.tables.curve_table import CurveTable
    from fedhpo.research.tables.surrogate import Surrogate


@dataclass(frozen=True)
class Replay:
    """What a method comes to on a table.

    `incumbents` are rounds spent and the true score, over all validation clients, of the trial to name then.
    """

    best: Config
    #: The round that the best trial was last scored at.
    round: int
    truth: float
    incumbents: tuple[tuple[int, float], ...]
    rounds: int
    trials: int
    evaluations: int
    epsilon: float


def replay(
    table: CurveTable,
    method: str | Method | Tuner,
    *,
    total: int | None = None,
    seed: int = 0,
    objective: Objective | None = None,
    evaluation: Evaluator | None = None,
    heterogeneity: float = 0.0,
    enqueued: Sequence[Config] = (),
    surrogate: bool | Surrogate = False,
) -> Replay:
    """Run a method on a table; budget and objective are those of the table's study if they are left out.

    `enqueued` are configs that come first. The method sees scores through the evaluator and at this
    heterogeneity. Its incumbents are judged by all validation clients, with their data as it is. With a
    `surrogate` any config of the space is answered; one that is fitted already saves the seconds that a fit
    takes.
    """
    budget, rounds = table.study.file.budget, int(table.rounds[-1])
    federation = tabular_federation(table, heterogeneity, surrogate)
    trace = _Trace(federation)
    prepared = prepare(
        federation,
        table.space,
        method,
        rounds=rounds,
        total=total or budget.total or 10 * rounds,
        cohort=budget.cohort,
        seed=seed,
        objective=objective or table.study.objective,
        evaluation=evaluation,
        enqueued=enqueued,
        on_event=trace,
    )
    if prepared.search.evaluator.privacy is not None and prepared.search.evaluator.privacy.budget is not None:
        raise InputError("privacy.budget is for runs over clients: leave it out to replay a table")
    session, search = ReplayedSession(federation, prepared.budget), prepared.search
    prepared.begin(session)
    best, ledger = prepared.method.run(search), session.ledger
    trace.note(search, best)
    return Replay(
        best.config,
        best.scores[-1].round,
        trace.incumbents[-1][1],
        tuple(trace.incumbents),
        ledger.cost.rounds,
        len(search.trials),
        ledger.cost.evaluations,
        ledger.epsilon,
    )


class _Trace:
    """The true scores of the search's incumbents."""

    def __init__(self, federation: TabularFederation) -> None:
        self.incumbents: list[tuple[int, float]] = []
        self._federation = federation
        self._named: tuple[int, int] | None = None
        self._chosen = False

    def __call__(self, event: Event) -> None:
        # A private choice comes after the evaluation: what it changed shows with the next event.
        if event.kind == "evaluate" or self._chosen:
            self._chosen = event.kind == "evaluate"
            leader = event.search.leader()
            if leader is not None:
                self.note(event.search, leader)

    def note(self, search: Search, leader: Trial) -> None:
        """Write down the leader's true score, where the leader changed."""
        named = leader.number, leader.scores[-1].round
        if named == self._named:
            return
        self._named = named
        spent = search.ledger.cost.rounds
        truth = self._federation.truth(leader.config, named[1], search.objective)
        note(self.incumbents, spent, truth)


class ReplayedSession(UnrecordedSession):
    """A session on a table: rounds only move clocks."""

    virtual = True

    def __init__(self, federation: TabularFederation, budget: Budget) -> None:
        super().__init__(federation, budget)
        self._table = federation

    def advance(self, trials: Sequence[tuple[int, Config]]) -> list[str]:
        """Move the clock of each trial, unless its training failed when the table was built."""
        found = [self._moved(number, config) for number, config in trials]
        self.ledger.charge(Cost(rounds=len(trials)))
        return found

    def _moved(self, trial: int, config: Config) -> str:
        table, round = self._table, self._table.clock(trial)
        if round >= table.trained(config):
            return "failed when the table was built"
        table.seek(trial, config, round + 1)
        return ""
