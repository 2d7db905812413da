"""A method on a table, as fast as can be: nothing is recorded, and a round is a step of a clock.

`fedhpo.tune` on a `TabularFederation` takes the same decisions and comes to the same result; it keeps a
record of every round on the way. Here a search of 6,000 rounds takes a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError
from fedhpo.methods import Tuner, method_of
from fedhpo.methods.method import Method
from fedhpo.protocol.federation import Cost, Ints, Scores
from fedhpo.protocol.objective import Objective
from fedhpo.research.tables.federation import TabularFederation
from fedhpo.run import Budget, Ledger
from fedhpo.run.recorded import Charged
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.search import FAILED, Event, Search, Trial
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.research.tables.curve_table import CurveTable


@dataclass(frozen=True)
class Replay:
    """What a method comes to on a table.

    `incumbents` are rounds spent and the true score, over all validation clients, of the trial to name then.
    """

    best: Config
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
) -> Replay:
    """Run a method on a table; budget and objective are those of the table's study if they are left out.

    The method sees scores through the evaluator and at this heterogeneity. Its incumbents are judged by all
    validation clients, with their data as it is.
    """
    from fedhpo.search.private_setup import check_scored, plan_private, private_objective

    chosen = method_of(method)
    budget, rounds = table.study.file.budget, int(table.rounds[-1])
    total = total or budget.total or 10 * rounds
    objective, evaluator = objective or table.study.objective, evaluation or Evaluator()
    federation = TabularFederation(table, heterogeneity)
    federation.require(chosen.needs, chosen.name)
    check_scored(objective, federation)
    privacy = evaluator.privacy
    if privacy is not None:
        objective = private_objective(objective, federation)
    trace = _Trace(table, federation, objective)
    search = _ReplayedSearch(
        table.space,
        rounds=rounds,
        total=total,
        cohort=budget.cohort,
        seed=seed,
        objective=objective,
        evaluator=evaluator,
        pool=federation.pool,
        on_event=trace,
    )
    chosen.rounds(search)  # refuses a budget that cannot do
    if privacy is not None:
        plan_private(search, chosen, federation.validation_clients, False)
    ledger = Ledger(Budget(rounds=total, epsilon=None if privacy is None else privacy.epsilon))
    search.federation = _Unrecorded(federation, ledger)  # type: ignore[assignment]
    best = chosen.run(search)
    trace.note(search, best)
    return Replay(
        best.config,
        trace.incumbents[-1][1],
        tuple(trace.incumbents),
        ledger.cost.rounds,
        len(search.trials),
        ledger.cost.evaluations,
        ledger.epsilon,
    )


class _Trace:
    """The true scores of the search's incumbents."""

    def __init__(self, table: CurveTable, federation: TabularFederation, objective: Objective) -> None:
        self.incumbents: list[tuple[int, float]] = []
        self._table, self._federation, self._objective = table, federation, objective
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
        truth = self._table.truth(self._federation.index(leader.config), named[1], self._objective)
        if self.incumbents and self.incumbents[-1][0] == spent:
            self.incumbents.pop()
        self.incumbents.append((spent, truth))


class _ReplayedSearch(Search):
    """A search whose rounds only move clocks."""

    def round(self, trials: Sequence[Trial]) -> None:
        federation = self.federation.inner
        assert isinstance(federation, TabularFederation)
        for trial in trials:
            if trial.round < federation.table.trained[federation.index(trial.config)]:
                trial.round += 1
                federation.seek(trial.number, trial.config, trial.round)
            else:
                trial.status, trial.reason = (
                    FAILED,
                    f"round {trial.round + 1}: failed when the table was built",
                )
                federation.stop(trial.number)
        self.ledger.charge(Cost(rounds=len(trials)))
        self._emit("round", trials)


class _Unrecorded:
    """As much of a `RecordedFederation` as a search touches, without the record."""

    replaying = False

    def __init__(self, inner: TabularFederation, ledger: Ledger) -> None:
        self.inner, self.ledger = inner, ledger
        self.train_clients, self.validation_clients = inner.train_clients, inner.validation_clients
        self.capabilities = inner.capabilities
        self.start, self.stop, self.state = inner.start, inner.stop, inner.state

    @property
    def trials(self) -> Sequence[int]:
        return self.inner.trials

    def evaluate(self, trials: Sequence[int], clients: Sequence[int] | Ints) -> list[Scores]:
        found = self.inner.evaluate(trials, clients)
        for scores in found:
            self.ledger.charge(scores.cost)
        return found

    def decide(self, kind: str, key: Any, compute: Callable[[], Any], *, epsilon: float = 0.0) -> Any:
        if epsilon:
            self.ledger.require(epsilon=epsilon)
            self.ledger.charge(epsilon=epsilon)
        computed = compute()
        if isinstance(computed, Charged):
            self.ledger.charge(computed.cost)
            return computed.value
        return computed

    def fork(self, source: int, target: int) -> None:
        raise InputError("a table cannot fork a trial")
