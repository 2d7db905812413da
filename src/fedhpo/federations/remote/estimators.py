"""Any learner at clients: local searches at the nodes (FLoRA), then what can be trained without their rows.

The weights of an MLP are averaged (`fedhpo.learners.averaging`). Of other estimators no two can be joined to
one: each client then fits its own with the config that was found, and keeps it. The config is the result; its
score is that of the clients' own models on their own rows. Boosted trees: see `learners`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.sizes import beyond_use
from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.core.vectors import Vector
from fedhpo.federations.learner_trials import LearnerTrial
from fedhpo.federations.learners import TRAINING
from fedhpo.federations.remote import messages
from fedhpo.federations.remote.base import joined_by
from fedhpo.federations.remote.clients import LEARNER
from fedhpo.federations.remote.layout import Layout, Rejected
from fedhpo.federations.remote.learners import RemoteLearnerFederation, Reply, report_of
from fedhpo.federations.remote.mailbox import ArraysParcel, Item, TreesParcel
from fedhpo.federations.remote.messages import Task
from fedhpo.federations.remote.replies import TaskFailed, read_fitted
from fedhpo.federations.remote.transport import Incoming, Transport
from fedhpo.learners.averaging import AVERAGING, EXCHANGES, can_average, first_arrays, with_arrays
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.protocol.federation import RoundReport, Status, TrialState, Work
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.reasons import Reason, Why

#: How one training is done, as the result names it.
RECOMMEND = "none (each party keeps a model of its own: the config is the result)"
#: What an MLP's features are scaled by: the least and the largest of each, at the median party.
RANGE = ("low", "high")


@dataclass(eq=False)
class _Training:
    """A training under way: so many exchanges are done, `arrays` is where clients go on from."""

    work: Work
    trial: LearnerTrial
    exchange: int
    arrays: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    replies: dict[int, Reply] = field(default_factory=dict)
    sent: dict[int, Vector] = field(default_factory=dict)
    memory: Mapping[str, Vector] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)
    bytes_down: int = 0
    ended: bool = False

    @property
    def complete(self) -> bool:
        """Whether all have replied to what was asked last."""
        return len(self.replies) == len(self.work.cohort)


class RemoteEstimatorFederation(RemoteLearnerFederation):
    """Clients that are asked by messages and fit estimators of scikit-learn; see the module's docstring.

    Parameters
    ----------
    transport
        What brings messages and replies.
    learner
        What they fit.
    aggregation
        How the weights of an MLP are put together.
    scoring, settings
        As of `RemoteLearnerFederation`.
    """

    _kind, _does = LEARNER, "fits no estimator"

    def __init__(
        self,
        transport: Transport,
        learner: Learner | Algorithms,
        *,
        aggregation: Aggregation | None = None,
        **settings: Any,
    ) -> None:
        aggregation = Aggregation() if aggregation is None else aggregation
        super().__init__(transport, weighting=aggregation.weighting, **settings)
        self._aggregation, self._labels = aggregation, self._clients.common("classes")
        self._learner = learner.for_task("regression" if self._labels is None else "classes")
        self._averages = can_average(self._learner)

    @property
    def trust(self) -> str:
        if not self.remote:
            return ""
        if not self._averages:
            return "each client keeps its own model, so that a hostile one spoils no other's"
        return f"weights are joined by {joined_by(self._aggregation)}"

    # Trials

    def state(self, trial: int) -> TrialState:
        one = self._trials[trial]
        facts = {"model": dict(one.model), "seed": one.seed, "client": one.client, "names": list(one.arrays)}
        return TrialState(dict(one.arrays), facts)

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.idle(trial)
        facts = state.facts
        arrays = {name: np.asarray(state.arrays[name], np.float32) for name in facts["names"]}
        self._trials[trial] = LearnerTrial(facts["model"], facts["seed"], facts["client"], arrays=arrays)

    def model(self, trial: int) -> Any:
        """The trial's estimator; None before it is trained, and where each client keeps its own."""
        one = self._trials[trial]
        if not one.arrays:
            return None
        assert isinstance(self._learner, Learner)
        made = with_arrays(self._learner, one.config, weights_of(one.arrays), self._labels)
        if RANGE[0] not in one.arrays:
            return made
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MinMaxScaler

        return make_pipeline(MinMaxScaler().fit(np.stack([one.arrays[name] for name in RANGE])), made)

    # Rounds

    def submit(self, work: Work) -> None:
        trial = self._accept(work, self._learner)
        arrays: Mapping[str, NDArray[np.float32]] = {}
        if self._averages:
            assert isinstance(self._learner, Learner)
            seed = derive(trial.seed, "fit") % 2**32
            arrays = first_arrays(self._learner, trial.config, self._features, self._labels, seed)
        scales = self._averages and self._learner.scale
        self._trials.rounds[work.trial] = _Training(work, trial, 0 if scales else 1, arrays)
        self._ask(self._trials.rounds[work.trial])

    def _ask(self, one: _Training) -> None:
        """Ask all clients that have replied so far for the exchange that is next."""
        layout = _layout(one.arrays)
        parcel = ArraysParcel(layout.join(one.arrays), layout) if one.arrays else None
        expected = _layout(weights_of(one.arrays))
        if self._averages and one.exchange == 0:
            expected = Layout(dict.fromkeys(RANGE, (self._features,)), 0)
        failed = {place: reply for place, reply in one.replies.items() if reply.status != Status.OK}
        one.replies, one.sent = failed, {}
        for place in range(len(one.work.cohort)):
            if place not in failed:
                one.bytes_down += parcel.bytes if parcel is not None else 0
                self._post.add(self._exchange(one, place, parcel, expected))
        self._post.send()

    def _exchange(self, one: _Training, place: int, parcel: ArraysParcel | None, expected: Layout) -> Item:
        work, trial, client = one.work, one.trial, int(one.work.cohort[place])
        task = Task(work.trial, client, one.exchange, trial.model, trial.client or {}, seed=(trial.seed,))
        limits = [int(self._limits(work.cohort, split)[place]) for split in ("train", "validation")]
        start = expected.join(weights_of(one.arrays)) if one.exchange else np.zeros(0, np.float32)

        def read(reply: Any, message: Incoming) -> tuple[Reply, Vector]:
            rows, held, name = read_fitted(reply, work.trial, self._most_rows)
            vector = expected.join(message.arrays(name, expected) if expected.shapes else {})
            if not np.isfinite(vector).all():
                raise Rejected("its arrays hold NaN or infinite numbers")
            if one.exchange and beyond_use(vector - start, start):
                raise TaskFailed(Reason(Why.TOO_LARGE))
            return Reply(Status.OK, None, min(rows, limits[0]), min(held, limits[1])), vector

        def done(status: Status, why: Reason | None, value: Any) -> None:
            one.replies[place] = Reply(status, why)
            if status == Status.OK:
                one.replies[place], one.sent[place] = value
                one.bytes[place] = one.bytes.get(place, 0) + int(one.sent[place].nbytes)

        return Item(client, messages.TRAIN, task.to_dict(), parcel, read, done)

    def ready(self) -> list[int]:
        for one in self._trials.rounds.values():
            if one.complete and not one.ended:
                self._go_on(one)
        return [number for number, one in self._trials.rounds.items() if one.ended]

    def _go_on(self, one: _Training) -> None:
        """What comes after an exchange: the next, or the end."""
        enough = len(one.sent) >= self._minimum(one.work.minimum, len(one.work.cohort))
        if not enough or not self._averages:
            one.ended = True
            return
        if one.exchange == 0:
            one.arrays = {**one.arrays, **self._range(one)}
        else:
            one.arrays = self._averaged(one)
        one.ended = one.exchange == EXCHANGES
        one.exchange += 1
        if not one.ended:
            self._ask(one)

    def _range(self, one: _Training) -> dict[str, NDArray[np.float32]]:
        """The median party's least and largest features: a party that lies moves them little."""
        middle = np.median([one.sent[place] for place in sorted(one.sent)], axis=0)
        return {name: part.astype(np.float32) for name, part in zip(RANGE, np.split(middle, 2), strict=True)}

    def _averaged(self, one: _Training) -> dict[str, NDArray[np.float32]]:
        before = weights_of(one.arrays)
        layout = _layout(before)
        start = layout.join(before)
        aggregate = self._aggregation.start(one.memory, one.work.cohort)
        for place in sorted(one.sent):
            aggregate.add(one.sent[place] - start, one.replies[place].train_size, place)
        mean = start + aggregate.mean()
        one.memory = aggregate.memory
        return {**one.arrays, **{name: array.copy() for name, array in layout.split(mean).items()}}

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        while not (ended := [n for n in self.ready() if trial in (None, n)]):
            self._post.collect()
        one = self._trials.rounds.pop(ended[0])
        replies = [
            replace(one.replies[place], bytes=one.bytes.get(place, 0)) for place in range(len(one.replies))
        ]
        applied = sum(reply.status == Status.OK for reply in replies) >= self._minimum(
            one.work.minimum, len(replies)
        )
        if applied:
            self._trials[one.work.trial] = replace(one.trial, arrays=one.arrays)
        exchanges = one.exchange - 1 if applied and self._averages else 1
        return report_of(
            one.work,
            replies,
            applied,
            client_rounds=len(replies) * exchanges,
            bytes_down=one.bytes_down,
            samples=sum(reply.train_size for reply in replies),
        )

    # What the tasks of `RemoteClients` are about

    def _asked_of(self, trial: int) -> tuple[Any, Task, tuple[int, ...]]:
        self._trials.idle(trial)
        one = self._trials[trial]
        layout = _layout(one.arrays)
        parcel = ArraysParcel(layout.join(one.arrays), layout) if one.arrays else TreesParcel(b"")
        trained = int(one.client is not None)
        return parcel, Task(trial, 0, trained, one.model, one.client or {}, seed=(one.seed,)), (one.seed,)

    def _check_fine_tune(self, task: FineTune) -> None:
        raise InputError("a learner cannot be fine-tuned: it is trained whole")

    # The federation itself

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        return super().fingerprint(model) | {"learner": self._learner.name}

    def describe(self) -> dict[str, Any]:
        training = TRAINING[AVERAGING] if self._averages else RECOMMEND
        return super().describe() | {"learner": self._learner.name, "training": training}


def weights_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays without the range of features.

    >>> list(weights_of({"coef-0": np.zeros(1), "low": np.zeros(1), "high": np.ones(1)}))
    ['coef-0']
    """
    return {name: array for name, array in arrays.items() if name not in RANGE}


def scaled(x: NDArray[Any], arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Features brought to 0..1 by the range that arrays hold, if they hold one.

    >>> scaled(np.array([[1.0, 5.0]]), {"low": np.array([0.0, 5.0]), "high": np.array([2.0, 5.0])}).tolist()
    [[0.5, 0.0]]
    """
    if RANGE[0] not in arrays:
        return x
    low, high = (np.asarray(arrays[name], x.dtype) for name in RANGE)
    found: NDArray[Any] = (x - low) / np.where(high > low, high - low, 1)
    return found


def _layout(arrays: Mapping[str, NDArray[Any]]) -> Layout:
    return Layout({name: array.shape for name, array in arrays.items()}, 0)
