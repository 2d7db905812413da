"""Boosted trees at clients: local searches at the nodes (FLoRA), then one federated training.

As in `fedhpo.federations.learners` a learner is trained whole: one round is one training, however many trips
to the clients it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.errors import InputError
from fedhpo.federations.learner_trials import LearnerTrial, TrainsWhole
from fedhpo.federations.remote import messages
from fedhpo.federations.remote.base import RemoteClients
from fedhpo.federations.remote.clients import TREES
from fedhpo.federations.remote.layout import Rejected
from fedhpo.federations.remote.mailbox import Item, TreesParcel
from fedhpo.federations.remote.messages import Task
from fedhpo.federations.remote.replies import read_boosted
from fedhpo.federations.remote.transport import Incoming, Transport
from fedhpo.federations.trial_table import TrialTable
from fedhpo.learners.bagging import (
    BAGGING,
    CYCLIC,
    JOINED,
    REACH,
    NotTrees,
    Tree,
    Trips,
    check_trips,
    read_trees,
)
from fedhpo.learners.boosted import BoostedTrees
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.paper import XGBOOST
from fedhpo.protocol.federation import Cost, RoundReport, Status, TrialState, Work
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.reasons import Reason, Why, ours


@dataclass(frozen=True)
class Reply:
    """What came of a client in a training; `trees` of boosted ones."""

    status: Status
    reason: Reason | None = None
    train_size: int = 0
    validation_size: int = 0
    bytes: int = 0
    trees: Sequence[Tree] = ()


@dataclass(eq=False)
class _Round:
    """A round under way: `replies` of its present trip, by their position in the cohort, and `all` so far."""

    work: Work
    trial: LearnerTrial
    trips: Trips
    replies: dict[int, Reply] = field(default_factory=dict)
    all: dict[int, list[Reply]] = field(default_factory=dict)
    bytes_down: int = 0

    @property
    def complete(self) -> bool:
        return self.trips.over

    def reply(self, place: int) -> Reply:
        """A member's outcome: its failure in some trip, or everything that it sent."""
        own = self.all.get(place, [])
        if not own:
            return Reply(Status.MISSING, ours(Why.DROPPED, "the training ended before its turn"))
        told = next((one for one in own if one.status != Status.OK), own[-1])
        return replace(told, bytes=sum(one.bytes for one in own))


class RemoteLearnerFederation(TrainsWhole, RemoteClients):
    """Clients that are asked by messages and boost trees; how these are joined: `fedhpo.learners.bagging`.

    Parameters
    ----------
    transport
        What brings messages to the clients' nodes, and replies back.
    weighting
        Whether clients weigh by their training rows ("size") or all the same ("uniform").
    scoring
        How clients score, for the report: that is up to the study at each of them.
    training, trips
        "bagging" or "cyclic", and in how many trips to the clients the rounds of boosting are done.
    settings
        How clients are waited for and checked: see `RemoteClients`.
    """

    #: What clients must train, as they say when they come, and how an error names it.
    _kind, _does = TREES, "boosts no trees"
    fine_tunes = False
    #: How far one client's trees reach, in median ones; None where nobody lies.
    _reach: float | None = REACH

    def __init__(
        self,
        transport: Transport,
        *,
        weighting: str = "size",
        scoring: str = "balanced_accuracy",
        training: str = BAGGING,
        trips: int = 1,
        **settings: Any,
    ) -> None:
        check_trips(training, trips)
        self._training, self._trips = training, trips
        self._weighting = Aggregation(weighting).weighting  # refuses an unknown one
        self._scored_by = scoring
        super().__init__(transport, **settings)
        for number, hello in self._clients.hellos.items():
            if hello.training != self._kind:
                raise InputError(f"client {number} {self._does}: is the study the same on all machines?")
        shape = self._clients.common("shape")
        if shape is None:
            raise InputError("no client reports its number of features")
        self._features = int(np.prod(shape))
        self._classes = self._clients.common("classes") or 2
        self._trials = TrialTable()

    @property
    def trust(self) -> str:
        if not self.remote:
            return ""
        if self._training == CYCLIC:
            return "trees are boosted by one client after the other: one hostile client can spoil every model"
        return (
            f"trees are joined by a mean, no client's margins beyond {REACH:g} median ones: a hostile client "
            "moves predictions by at most that"
        )

    # Trials

    def state(self, trial: int) -> TrialState:
        one = self._trials[trial]
        facts = {"model": dict(one.model), "seed": one.seed, "client": dict(one.client or {})}
        return TrialState({"booster": np.frombuffer(one.raw, np.uint8)}, facts)

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.idle(trial)
        facts = state.facts
        raw = np.asarray(state.arrays["booster"], np.uint8).tobytes()
        cohort = tuple(facts.get("cohort", ()))  # a simulation tells it
        trained = facts["client"] if raw else None
        self._trials[trial] = LearnerTrial(facts["model"], facts["seed"], trained, cohort, raw)

    def model(self, trial: int) -> BoostedTrees | None:
        """The trial's estimator; None before it is trained."""
        one = self._trials[trial]
        if not one.raw:
            return None
        return BoostedTrees(**{**one.config.client, **one.model}).adopt(one.raw, self._classes)

    # Rounds

    def submit(self, work: Work) -> None:
        trial = self._accept(work, XGBOOST)
        rounds = BoostedTrees(**{**trial.config.client, **trial.model}).max_iter
        places = list(range(len(work.cohort)))
        trips = Trips(
            self._training, self._trips, rounds, places, self._features, self._classes, reach=self._reach
        )
        self._trials.rounds[work.trial] = _Round(work, trial, trips)
        self._travel(self._trials.rounds[work.trial])

    def _accept(self, work: Work, learner: Learner | Algorithms) -> LearnerTrial:
        """Refuse what cannot be trained; else see who is there. The trial as it is then."""
        trial = self._accepted(work, learner)
        self.check_products(work)
        self._can_train(work.cohort)
        self._nodes.look()
        return trial

    def _travel(self, one: _Round) -> None:
        """Begin the next trip of a round."""
        model = TreesParcel(one.trips.model) if one.trips.model else None
        one.replies = {}
        for place in one.trips.asked:
            one.bytes_down += len(one.trips.model)
            self._post.add(self._item(one, place, model))
        self._post.send()

    def _arrive(self, one: _Round) -> None:
        """End a trip all of whose replies are there, and begin the next one."""
        trips = one.trips
        while not trips.over and len(one.replies) == len(trips.asked):
            came = {place: reply for place, reply in one.replies.items() if reply.status == Status.OK}
            for place, reply in one.replies.items():
                one.all.setdefault(place, []).append(reply)
            least = self._minimum(one.work.minimum, len(trips.asked)) if self._training == BAGGING else 1
            by_size = self._weighting == "size"
            parts = {p: (r.trees, float(r.train_size) if by_size else 1.0) for p, r in came.items()}
            trips.take(parts if len(came) >= least else {})
            if not trips.over:
                self._travel(one)

    def _item(self, one: _Round, place: int, model: TreesParcel | None) -> Item:
        work, trial, client, rounds = one.work, one.trial, int(one.work.cohort[place]), one.trips.count
        task = Task(work.trial, client, 0, trial.model, trial.config.client, seed=(trial.seed,))
        if one.trips.trips > 1:
            here = {**trial.config.client, **trial.model, "max_iter": rounds}
            task = replace(task, round=one.trips.done, model={}, config=here)
        limits = [int(self._limits(work.cohort, split)[place]) for split in ("train", "validation")]

        def read(reply: Any, message: Incoming) -> Reply:
            most = self._post.message_bytes
            rows, held, raw = read_boosted(reply, message, work.trial, self._most_rows, most)
            rows, held = min(rows, limits[0]), min(held, limits[1])
            try:
                trees = read_trees(raw, self._features, self._classes, rounds)
            except NotTrees as why:
                raise Rejected(str(why)) from None
            return Reply(Status.OK, None, rows, held, len(raw), trees)

        def done(status: Status, why: Reason | None, value: Any) -> None:
            one.replies[place] = value if status == Status.OK else Reply(status, why)

        return Item(client, messages.TRAIN, task.to_dict(), model, read, done)

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        while not (ended := [n for n in self.ready() if trial in (None, n)]):
            self._post.collect()
            for one in self._trials.rounds.values():
                self._arrive(one)
        return self._end(self._trials.rounds.pop(ended[0]))

    def ready(self) -> list[int]:
        for one in self._trials.rounds.values():
            self._arrive(one)
        return [number for number, one in self._trials.rounds.items() if one.complete]

    def _end(self, one: _Round) -> RoundReport:
        work, replies = one.work, [one.reply(place) for place in range(len(one.work.cohort))]
        applied = one.trips.done == one.trips.trips
        if applied:
            self._trials[work.trial] = replace(one.trial, raw=one.trips.model)
        return report_of(
            work,
            replies,
            applied,
            client_rounds=sum(map(len, one.all.values())),
            bytes_down=one.bytes_down,
            samples=sum(reply.train_size for own in one.all.values() for reply in own),
        )

    # What the tasks of `RemoteClients` are about

    def _asked_of(self, trial: int) -> tuple[TreesParcel, Task, tuple[int, ...]]:
        self._trials.idle(trial)
        one = self._trials[trial]
        return TreesParcel(one.raw), Task(trial, 0, 0, one.model), (one.seed,)

    def _check_fine_tune(self, task: FineTune) -> None:
        raise InputError("boosted trees cannot be fine-tuned: they are trained whole")

    # The federation itself

    @property
    def scoring(self) -> str:
        return self._scored_by

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        return super().fingerprint(model) | {"settings": self._settings()}

    def _settings(self) -> dict[str, Any]:
        """What results depend on; the usual way of training is not named, as before there were others."""
        usual = (self._training, self._trips) == (BAGGING, 1)
        return {
            "weighting": self._weighting,
            **({} if usual else {"training": self._training, "trips": self._trips}),
        }

    def describe(self) -> dict[str, Any]:
        return {
            "runtime": self.runtime,
            "clients": len(self._clients.hellos),
            "ordered_by": self._clients.by,
            "learner": XGBOOST.name,
            "training": JOINED[self._training],
            "trips": self._trips,
            "weighting": self._weighting,
            "scoring": self._scored_by,
            "deadline": self._post.deadline,
            "dropped": ", ".join(f"{what}: {count}" for what, count in self.dropped.items()),
        }

    def close(self) -> None:
        self._trials.clear()
        super().close()


def report_of(
    work: Work,
    replies: Sequence[Reply],
    applied: bool,
    *,
    client_rounds: int,
    samples: int,
    bytes_down: int,
) -> RoundReport:
    """The report of a training: in one round, however often something was exchanged."""
    return RoundReport.unscored(
        work,
        1 if applied else 0,
        applied,
        np.array([reply.status for reply in replies], np.int8),
        np.array([reply.train_size for reply in replies], np.int64),
        np.array([reply.validation_size for reply in replies], np.int64),
        {place: reply.reason for place, reply in enumerate(replies) if reply.reason},
        Cost(
            # A failure does not count as a round: the budget often has only one; it may be tried again.
            rounds=1 if applied else 0,
            client_rounds=client_rounds,
            bytes_down=bytes_down,
            bytes_up=sum(reply.bytes for reply in replies),
            samples=samples,
        ),
    )
