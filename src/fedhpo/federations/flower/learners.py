"""Boosted trees over Flower: local searches at the nodes (FLoRA), then one federated training by bagging.

As in `fedhpo.federations.learners` a learner is trained whole: one round is one training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.errors import InputError
from fedhpo.federations.flower import messages
from fedhpo.federations.flower.bagging import BAGGING, Tree, join, read_trees
from fedhpo.federations.flower.clients import TREES
from fedhpo.federations.flower.grid import GridFederation
from fedhpo.federations.flower.mailbox import Item, TreesParcel
from fedhpo.federations.flower.messages import Task
from fedhpo.federations.flower.replies import read_boosted
from fedhpo.federations.trial_table import TrialTable
from fedhpo.learners.boosted import BoostedTrees
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.paper import XGBOOST
from fedhpo.protocol.federation import Cost, RoundReport, Status, TrialState, Work
from fedhpo.protocol.fine_tune import FineTune


@dataclass(frozen=True)
class _Trial:
    """A model, once it is trained: XGBoost's bytes."""

    model: Mapping[str, Any]
    seed: int
    client: Mapping[str, Any] = field(default_factory=dict)
    raw: bytes = b""


@dataclass(frozen=True)
class Reply:
    """What came of a client in a training; `trees` of boosted ones."""

    status: Status
    reason: str = ""
    train_size: int = 0
    validation_size: int = 0
    bytes: int = 0
    trees: Sequence[Tree] = ()


@dataclass(eq=False)
class _Round:
    """A round under way, and the replies so far by their position in the cohort."""

    work: Work
    replies: dict[int, Reply] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.replies) == len(self.work.cohort)


class FlowerLearnerFederation(GridFederation):
    """Clients behind a Flower grid that boost trees; see `bagging` for how they are joined.

    Parameters
    ----------
    grid
        What Flower gives to a `ServerApp`, or an `InProcessGrid`.
    weighting
        Whether clients weigh by their training rows ("size") or all the same ("uniform").
    scoring
        How clients score, for the report: that is up to the study at each of them.
    settings
        How clients are waited for and checked: see `GridFederation`.
    """

    #: What clients must train, as they say when they come, and how an error names it.
    _kind, _does = TREES, "boosts no trees"

    def __init__(
        self, grid: Grid, *, weighting: str = "size", scoring: str = "balanced_accuracy", **settings: Any
    ) -> None:
        self._weighting = Aggregation(weighting).weighting  # refuses an unknown one
        self._scored_by = scoring
        super().__init__(grid, **settings)
        for number, hello in self._clients.hellos.items():
            if hello.training != self._kind:
                raise InputError(f"client {number} {self._does}: is the study the same on all machines?")
        shape = self._clients.common("shape")
        if shape is None:
            raise InputError("no client says how many features its rows have")
        self._features = int(np.prod(shape))
        self._classes = self._clients.common("classes") or 2
        self._trials = TrialTable[_Trial, _Round]()

    # Trials

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        self._trials.add(trial, _Trial(dict(model), seed))

    def fork(self, source: int, target: int) -> None:
        raise InputError("a learner cannot fork: it is trained whole, and cannot go on under another config")

    def stop(self, trial: int) -> None:
        self._trials.stop(trial)

    @property
    def trials(self) -> Sequence[int]:
        return self._trials.numbers

    def state(self, trial: int) -> TrialState:
        one = self._trials[trial]
        facts = {"model": dict(one.model), "seed": one.seed, "client": dict(one.client)}
        return TrialState({"booster": np.frombuffer(one.raw, np.uint8)}, facts)

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.idle(trial)
        facts = state.facts
        raw = np.asarray(state.arrays["booster"], np.uint8).tobytes()
        self._trials[trial] = _Trial(facts["model"], facts["seed"], facts["client"], raw)

    def model(self, trial: int) -> BoostedTrees | None:
        """The trial's estimator; None before it is trained."""
        one = self._trials[trial]
        if not one.raw:
            return None
        return BoostedTrees(**{**one.client, **one.model}).adopt(one.raw, self._classes)

    # Rounds

    def submit(self, work: Work) -> None:
        trial = self._trials[work.trial]
        self._accept(work, trial.model, XGBOOST, trained=bool(trial.raw))
        one = self._trials.rounds[work.trial] = _Round(work)
        for place in range(len(work.cohort)):
            self._post.add(self._training(one, trial, place))
        self._post.send()

    def _accept(
        self, work: Work, model: Mapping[str, Any], learner: Learner | Algorithms, trained: bool
    ) -> None:
        """Refuse what cannot be trained; else see who is there."""
        self._trials.idle(work.trial)
        self.check_products(work)
        if not isinstance(work.client, Mapping):
            raise InputError("learners train with one client config for the whole cohort")
        if trained:
            raise InputError("a learner is trained whole in one round: rounds must be 1")
        for name in work.server:
            raise InputError(f"server hyperparameter {name!r}: learners have none")
        self._can_train(work.cohort)
        learner.check([*work.client, *model])
        self._nodes.look()

    def _training(self, one: _Round, trial: _Trial, place: int) -> Item:
        work, client = one.work, int(one.work.cohort[place])
        assert isinstance(work.client, Mapping)
        task = Task(work.trial, client, 0, trial.model, work.client, seed=(trial.seed,))
        rounds = BoostedTrees(**{**work.client, **trial.model}).max_iter
        limits = [int(self._limits(work.cohort, split)[place]) for split in ("train", "validation")]

        def read(reply: Any, message: Message) -> Reply:
            most = self._post.message_bytes
            rows, held, raw = read_boosted(reply, message, work.trial, self._most_rows, most)
            rows, held = min(rows, limits[0]), min(held, limits[1])
            trees = read_trees(raw, self._features, self._classes, rounds)
            return Reply(Status.OK, "", rows, held, len(raw), trees)

        def done(status: Status, why: str, value: Any) -> None:
            one.replies[place] = value if status == Status.OK else Reply(status, why)

        return Item(client, messages.TRAIN, task.to_dict(), None, read, done)

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        while not (ended := [n for n in self.ready() if trial in (None, n)]):
            self._post.collect()
        return self._end(self._trials.rounds.pop(ended[0]))

    def ready(self) -> list[int]:
        return [number for number, one in self._trials.rounds.items() if one.complete]

    def _end(self, one: _Round) -> RoundReport:
        work, replies = one.work, [one.replies[place] for place in range(len(one.work.cohort))]
        came = [reply for reply in replies if reply.status == Status.OK]
        applied = len(came) >= self._minimum(work.minimum, len(replies))
        if applied:
            parts = [
                (reply.trees, float(reply.train_size) if self._weighting == "size" else 1.0) for reply in came
            ]
            raw = join(parts, self._features, self._classes)
            assert isinstance(work.client, Mapping)
            trained = replace(self._trials[work.trial], client=dict(work.client), raw=raw)
            self._trials[work.trial] = trained
        return report_of(work, replies, applied)

    # What the tasks of `GridFederation` are about

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
        return super().fingerprint(model) | {"settings": {"weighting": self._weighting}}

    def describe(self) -> dict[str, Any]:
        return {
            "runtime": "flower",
            "clients": len(self._clients.hellos),
            "ordered_by": self._clients.by,
            "learner": XGBOOST.name,
            "training": BAGGING,
            "weighting": self._weighting,
            "scoring": self._scored_by,
            "deadline": self._post.deadline,
            "dropped": ", ".join(f"{what}: {count}" for what, count in self.dropped.items()),
        }

    def close(self) -> None:
        self._trials.clear()


def report_of(work: Work, replies: Sequence[Reply], applied: bool, exchanges: int = 1) -> RoundReport:
    """The report of a training: in one round, however often something was exchanged."""
    nan = np.full(len(replies), np.nan)
    return RoundReport(
        work.trial,
        1 if applied else 0,
        applied,
        np.array(work.cohort, np.int64),
        np.array([reply.status for reply in replies], np.int8),
        np.array([reply.train_size for reply in replies], np.int64),
        np.array([reply.validation_size for reply in replies], np.int64),
        nan,
        nan.copy(),
        nan.copy(),
        nan.copy(),
        {place: reply.reason for place, reply in enumerate(replies) if reply.reason},
        Cost(
            # A failure does not count as a round: the budget often has only one; it may be tried again.
            rounds=1 if applied else 0,
            client_rounds=len(replies) * exchanges,
            bytes_up=sum(reply.bytes for reply in replies),
            samples=sum(reply.train_size for reply in replies),
        ),
    )
