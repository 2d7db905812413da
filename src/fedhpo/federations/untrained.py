"""A simulation in which nobody trains: rounds take their time, and scores are drawn at random.

A method that runs on it shows how long it will take, whatever the models will be worth; see
`fedhpo.tuning.plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.data import FederatedData
from fedhpo.engine import flat
from fedhpo.engine.flat import ModelFactory
from fedhpo.engine.frozen import Shapes
from fedhpo.engine.lr_schedule import why_no_horizon
from fedhpo.federations.first_model import fresh_model
from fedhpo.federations.fleet import Fleet
from fedhpo.federations.timing import Timed, Timing, epochs_of
from fedhpo.federations.trial_table import HoldsTable, TrialTable
from fedhpo.protocol.federation import (
    CLIENT_CONFIGS,
    FORK,
    MIX,
    PRODUCTS,
    REPEATABLE,
    SCORES_IN_ROUND,
    Answer,
    Cost,
    Federation,
    Floats,
    Ints,
    Products,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialState,
    Work,
)
from fedhpo.protocol.metrics import Metric
from fedhpo.space import Space


@dataclass(frozen=True)
class _Trial:
    model: Mapping[str, Any]
    size: int
    seed: int
    round: int = 0
    clock: float = 0.0


class UntrainedFederation(HoldsTable, Federation):
    """The clients of a simulation and their fleet, without models; `seed` draws the scores."""

    def __init__(
        self,
        factory: ModelFactory,
        data: FederatedData,
        fleet: Fleet | None,
        seed: int,
        *,
        own_training: bool,
    ) -> None:
        self.timed = fleet is not None
        fleet = fleet or Fleet()
        self._shapes, self._seed, self._own_training = Shapes(factory), seed, own_training
        self._sizes = {split: getattr(data, split).sizes for split in ("train", "validation", "test")}
        self._timing = Timing(fleet, self._sizes["train"], self._sizes["validation"], data.client_names)
        self._trials: TrialTable[_Trial, tuple[Work, Timed]] = TrialTable()
        self._models: dict[str, int] = {}
        self._metrics: list[str] = []
        self.client_names, self.task = data.client_names, data.task
        self.train_clients = data.train_clients
        self.validation_clients = data.validation_clients
        self.test_clients = data.test_clients
        able = {CLIENT_CONFIGS, FORK, MIX, PRODUCTS, REPEATABLE}
        if len(np.intersect1d(self.train_clients, self.validation_clients)):
            able.add(SCORES_IN_ROUND)
        self.capabilities = frozenset(able)

    def why_no_horizon(self, space: Space) -> str:
        return "" if self._own_training else why_no_horizon(space.scope("client"))

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A model of which only the size is known."""
        shape = flat.shape_key(model)
        if shape not in self._models:
            self._models[shape] = fresh_model(self._shapes, model, 0).size
        self._trials.add(trial, _Trial(model, self._models[shape], seed))

    def fork(self, source: int, target: int) -> None:
        """Copy the round clock."""
        self._trials.idle(target)
        self._trials[target] = replace(self._trials[target], round=self._trials[source].round)

    def mix(self, source: int, target: int, share: float) -> None:
        """As a copy: there are no weights to mix."""
        self.fork(source, target)

    # Rounds

    def present(self, time: float, least: int, clients: Ints) -> tuple[float, Ints]:
        """Who is there."""
        return self._timing.present(time, least, clients)

    def starts(self, cohort: Sequence[int], time: float, beside: Sequence[Work]) -> list[float]:
        """When each of a cohort can start."""
        others = [timed for _, timed in self._trials.rounds.values()]
        return self._timing.starts(cohort, time, [*others, *map(self._timed, beside)])

    def _timed(self, work: Work) -> Timed:
        trial = self._trials[work.trial]
        epochs = epochs_of(work, self._sizes["train"], own_training=self._own_training)
        return self._timing.round(work, epochs, trial.size, trial.clock)

    def submit(self, work: Work) -> None:
        """Begin a round."""
        self._trials.idle(work.trial)
        self._trials.rounds[work.trial] = work, self._timed(work)

    def next_done(self, trial: int | None = None) -> RoundReport:
        """The round that ends first, or the trial's."""
        self._trials.submitted(trial)
        rounds = self._trials.rounds
        first = min(rounds, key=lambda number: rounds[number][1].last) if trial is None else trial
        return self._report(*rounds.pop(first))

    def ready(self) -> list[int]:
        """Trials whose round has ended by the time that the last one did."""
        rounds = self._trials.rounds
        now = max((self._trials[n].clock for n in self.trials if n not in rounds), default=0.0)
        return [number for number, (_, timed) in rounds.items() if timed.last <= now]

    def _report(self, work: Work, timed: Timed) -> RoundReport:
        trial, members = self._trials[work.trial], len(work.cohort)
        cohort = np.array(work.cohort, np.int64)
        status = np.full(members, Status.OK, np.int8)
        status[list(timed.reasons)] = Status.MISSING
        replies = int((status == Status.OK).sum())
        applied = replies >= work.minimum
        after = replace(trial, round=trial.round + applied, clock=timed.last)
        self._trials[work.trial] = after
        drawn = stream(self._seed, "losses", trial.seed, float(timed.last).hex()).random((2, members))
        drawn[:, status != Status.OK] = np.nan
        products = Products(drawn[0], drawn[1] - 0.5, 0.5, 0.0) if work.products and applied else None
        sizes = self._sizes["train"]
        rows = sizes[cohort]
        epochs = epochs_of(work, sizes, own_training=self._own_training)
        samples = epochs * rows * (status == Status.OK)
        return RoundReport(
            work.trial,
            after.round,
            applied,
            cohort,
            status,
            np.where(status == Status.OK, rows, 0),
            np.where(status == Status.OK, self._sizes["validation"][cohort], 0),
            drawn[0],
            drawn[1],
            1 - drawn[0],
            1 - drawn[1],
            dict(timed.reasons),
            Cost(1, members, 4 * trial.size * members, 4 * trial.size * replies, int(samples.sum())),
            products,
            span=(timed.begun, timed.last),
        )

    # Scores

    def measure(self, metrics: Sequence[Metric]) -> None:
        """Any metric is as random as the others."""
        self._metrics = [metric.name for metric in metrics]

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Random scores."""
        chosen = np.asarray(clients, np.int64)
        found = [self._scores(number, chosen, split) for number in trials]
        if split != "validation":
            return found
        return self._timing.scored(found, chosen, [self._trials[number].size for number in trials])

    def _scores(self, number: int, clients: Ints, split: SplitName) -> Scores:
        trial = self._trials[number]
        rng = stream(self._seed, "scores", trial.seed, trial.round, split)
        drawn: Floats = rng.random((1 + len(self._metrics), len(clients)))
        return Scores(
            number,
            split,
            clients,
            np.zeros(len(clients), np.int8),
            self._sizes[split][clients],
            1 - drawn[0],
            drawn[0],
            cost=Cost(evaluations=len(clients), bytes_down=4 * trial.size * len(clients)),
            metrics=dict(zip(self._metrics, drawn[1:], strict=True)),
        )

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Nobody can be asked."""
        raise InputError(f"the query {task.name!r} cannot be planned: nobody is asked")

    def state(self, trial: int) -> TrialState:
        """There is nothing to keep."""
        raise InputError("a plan is not kept")

    def restore(self, trial: int, state: TrialState) -> None:
        """There is nothing to bring back."""
        raise InputError("a plan is not kept")

    def describe(self) -> dict[str, Any]:
        """That nothing is trained."""
        return {"runtime": "untrained", "clients": len(self._sizes["train"])}
