"""Parties with tabular data in this process: what every way to train a learner there has in common.

A learner is trained whole: one round is one federated training, and a trial has no second. So a method that
trains once (FLoRA) costs one round, and one that tries 20 configs costs 20.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import whole_number
from fedhpo.data import Encoding, FederatedData, distances, from_clients
from fedhpo.data.columns import Preparation
from fedhpo.data.fingerprint import data_of
from fedhpo.data.profile import majority_share
from fedhpo.engine.task import check_task
from fedhpo.federations.folds import FoldScores
from fedhpo.federations.trial_table import TrialTable
from fedhpo.learners.averaging import AVERAGING, can_average
from fedhpo.learners.bagging import JOINED
from fedhpo.learners.fingerprint import estimator_of
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.named import learner_of
from fedhpo.learners.paper import HGB, XGBOOST
from fedhpo.learners.prepare import FITTED, Prepared
from fedhpo.learners.scoring import BALANCED, FOLDS, number_of_folds, outputs_of, score_of, scorer
from fedhpo.learners.tasks import Bench, Task
from fedhpo.learners.workers import start_workers
from fedhpo.protocol.bounds import checked_scores
from fedhpo.protocol.federation import (
    QUERY,
    REPEATABLE,
    Answer,
    Cost,
    Federation,
    Ints,
    Query,
    Scores,
    SplitName,
    Status,
)
from fedhpo.protocol.metrics import Metric, at_clients, check_metrics
from fedhpo.protocol.query import OwnQuery
from fedhpo.protocol.reasons import Reason, raised
from fedhpo.queries.local_search import LocalSearch, PartySearch, unable
from fedhpo.queries.own import ask_each, party_at
from fedhpo.queries.side_by_side import side_by_side
from fedhpo.space.config import Config
from fedhpo.workers.pool import Ended, Pool
from fedhpo.workers.spawn import cores, refuse_in_worker

#: What a client sends back of an evaluation: loss, accuracy and size.
_SCORE_BYTES = 24
#: How one federated training is done, as the result names it.
TRAINING = {
    "pooled": "pooled (the paper's emulation: the parties' rows in one place)",
    "collective": "collective (XGBoost over the parties' processes, rows stay with them)",
    **JOINED,
    AVERAGING: "averaging (the parties' weights, exchanged ten times; rows stay with them)",
}


class LearnersHere(Federation):
    """Parties whose rows are in this process; subclasses train. See `fedhpo.LearnerFederation`."""

    remote, place, fine_tunes = False, "simulation", False
    _trials: TrialTable[Any, Any]

    def __init__(
        self,
        data: Any,
        learner: Any = "hgb",
        *,
        training: str = "pooled",
        trips: int = 1,
        scoring: str | None = None,
        scaling: str | None = None,
        workers: int | None = None,
        ray: str | None = None,
    ) -> None:
        refuse_in_worker()
        given = data if isinstance(data, FederatedData) else from_clients(data)
        if given.task == "language":
            raise InputError("data: learners need one label a row, found a language task")
        self._prepared = Prepared.of(given, learner_of(learner), scaling)
        self._data, self._learner = self._prepared.data, self._prepared.learner
        self.client_names, self.task = given.client_names, given.task
        if scoring is None:
            scoring = "r2" if given.task == "regression" else BALANCED
        self._training, self._trips = training, trips
        self._check_training(training)
        scorer(scoring)  # an unknown name is an error here, not at the first party
        if self._data.task == "regression" and scoring == BALANCED:
            raise InputError(f"scoring = {scoring!r} is for classes: regression needs, say, 'r2'")
        self._scored_by = scoring
        self._wanted, self._ray = workers, ray
        self._count = cores() if workers is None else whole_number("workers", workers, least=0)
        self._bench = Bench(self._learner, self._data)
        self._workers: Pool[Task] | None = None
        self._measured: tuple[Metric, ...] = ()
        #: What ended while something else was waited for.
        self._ended: dict[int, Ended[Task]] = {}
        self.capabilities = frozenset({QUERY, REPEATABLE})
        self.usual_space = self._learner.space
        self.train_clients = self._data.train_clients
        self.validation_clients = self._data.validation_clients
        self.test_clients = self._data.test_clients

    def _check_training(self, training: str) -> None:
        """Refuse a way to train that is not this learner's."""
        whose, fits = "boosted trees (learner 'hgb' or 'xgboost')", self._learner in (HGB, XGBOOST)
        if training == AVERAGING:
            whose, fits = "MLPs of scikit-learn (learner 'mlp_sklearn')", can_average(self._learner)
        elif self._data.task == "regression":
            fits = False
        if training != "pooled" and not fits:
            raise InputError(
                f"training = {training!r} is for {whose}, not {self._learner.name!r}: use 'pooled'"
            )

    def preflight(self, config: Config, metric: str) -> None:
        """Names and values that the learner takes, targets that go with the metric; nothing is fitted."""
        check_task(self._data, metric)
        self._learner.check([*config.client, *config.model])
        self._learner.build(config, 0)

    @property
    def trust(self) -> str:
        return ""

    # Scores

    def measure(self, metrics: Sequence[Metric]) -> None:
        check_metrics(metrics, self.task)
        self._measured = tuple(metrics)

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        self._trials.idle(*trials)
        if split not in get_args(SplitName):
            raise unknown_name("split", split, get_args(SplitName))
        chosen = self._chosen(clients)
        return [self._scores(trial, chosen, split) for trial in trials]

    def _chosen(self, clients: Sequence[int] | Ints) -> Ints:
        chosen = np.asarray(clients, np.int64)
        bad = chosen[(chosen < 0) | (chosen >= self._data.clients)]
        if len(bad):
            raise InputError(f"client {bad[0]} is not there: clients are 0..{self._data.clients - 1}")
        return chosen

    def _scores(self, trial: int, clients: Ints, split: SplitName) -> Scores:
        model = self.model(trial)
        sizes: Ints = getattr(self._data, split).sizes[clients]
        loss, accuracy = np.full((2, len(clients)), np.nan)
        status = np.zeros(len(clients), np.int8)
        reasons: dict[int, Reason] = {}
        metrics = {metric.name: np.full(len(clients), np.nan) for metric in self._measured}
        parts: dict[int, tuple[Any, Any]] = {}
        for place, client in enumerate(clients.tolist()):
            if not sizes[place] or model is None:
                continue
            x, y = self._bench.rows([client], split)
            try:
                loss[place] = 1 - score_of(model, x, y, self._scored_by)
                accuracy[place] = _accuracy(model.predict(x), y)
                if self._measured:
                    own = outputs_of(model, x, self._data.classes), y
                    for metric in self._measured:
                        metrics[metric.name][place] = metric.value(*own)
                    parts[place] = own
            except Exception as error:
                status[place], reasons[place] = Status.FAILED, raised(error)
        for metric in self._measured:
            if metric.pooled and parts:
                metrics[metric.name][list(parts)] = at_clients(metric, list(parts.values()))
        cost = Cost(
            evaluations=len(clients),
            bytes_down=bytes_of(model) * len(clients),
            bytes_up=(_SCORE_BYTES + 8 * len(metrics)) * len(clients),
        )
        found = Scores(trial, split, clients, status, sizes, loss, accuracy, reasons, cost, metrics)
        return checked_scores(found)

    # Local search

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        if isinstance(task, OwnQuery):
            return self._answers(task, [int(c) for c in self._chosen(clients)])
        if not isinstance(task, LocalSearch):
            known = f"{LocalSearch.name!r} and those that have an `answer`"
            raise InputError(f"a federation of learners answers the queries {known}, not {task.name!r}")
        scoring = self._scored_by if task.scoring in (None, "loss") else str(task.scoring)
        chosen = [int(c) for c in self._chosen(clients)]
        scorer(scoring)
        self._learner.check([*task.space.scope("client"), *task.space.scope("model")])
        searches, folds, answers = {}, {}, {}
        for party in chosen:
            labels = self._data.y[self._data.train.rows(party)]
            try:
                if not len(labels):
                    raise InputError("it has no training rows")
                folds[party] = number_of_folds(labels, task.folds or FOLDS)
            except InputError as error:
                answers[party] = unable(task, party, str(error))
                continue
            searches[party] = PartySearch(task, party, len(labels))
        trainer = FoldScores(self._started, task, scoring, folds, {p: s.size for p, s in searches.items()})
        answers |= side_by_side(task, searches, trainer)
        self._ended |= trainer.others
        return [answers[party] for party in chosen]

    def _answers(self, task: OwnQuery, parties: Sequence[int]) -> list[Answer]:
        """Answers to a query of the user's own. A trial has no model that could be sent."""
        number = getattr(task, "trial", None)
        if number is not None:
            raise InputError(f"query {task.name!r}: trial = {number!r}: a learner's model is not sent")
        down = len(canonical(task.to_dict()))
        return ask_each(task, parties, lambda c: party_at(self._data, c, c, task, None, ()), down)

    # The federation itself

    def describe(self) -> dict[str, Any]:
        return {
            "runtime": "learners",
            "data": self._data.name,
            "clients": self._data.clients,
            "learner": self._learner.name,
            "training": TRAINING[self._training],
            **({"trips": self._trips} if self._training in JOINED else {}),
            "scoring": self._scored_by,
            **self._prepared.describe(),
            "workers": self._count if self._workers is None else self._workers.workers,
            **({} if self._ray is None else {"worker_kind": "ray"}),
        }

    @cached_property
    def majority(self) -> float | None:
        """The share of the commonest class among validation rows."""
        return majority_share(self._data)

    @property
    def encoding(self) -> Encoding | None:
        """How columns became features, where data came as columns."""
        return self._data.encoding

    @property
    def preparation(self) -> Preparation:
        """What encoded rows go through before the learner sees them."""
        return self._prepared.preparation

    @property
    def scoring(self) -> str:
        return self._scored_by

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        learners = self._learner.learners if isinstance(self._learner, Algorithms) else (self._learner,)
        return {
            "data": data_of(self._data),
            "learner": {
                one.name: {
                    "estimator": estimator_of(one.load()),
                    "fixed": json.loads(canonical(dict(one.fixed))),
                    "scale": one.scale,
                }
                for one in learners
            },
            "settings": self._settings(),
        }

    def _settings(self) -> dict[str, Any]:
        """What results depend on; what was there before others came is named only where it differs."""
        return {
            "training": self._training,
            "scoring": self._scored_by,
            **({"trips": self._trips} if self._trips > 1 else {}),
            **({"scaling": self._prepared.scaling} if self._prepared.scaling != FITTED else {}),
        }

    def distances(self, clients: Sequence[int] | Ints, seed: int) -> dict[str, Any] | None:
        return distances(self._data, self._chosen(clients), seed)

    @property
    def learner(self) -> Learner | Algorithms:
        """What the parties train."""
        return self._learner

    @property
    def pids(self) -> list[int]:
        """The worker processes' ids, if there are any."""
        return [] if self._workers is None else self._workers.pids

    @property
    def _started(self) -> Pool[Task]:
        if self._workers is None:
            self._workers = start_workers(self._bench, self._count, self._ray, self._wanted)
        return self._workers

    def close(self) -> None:
        if self._workers is not None:
            self._workers.close()
            self._workers = None
        self._ended.clear()


def _accuracy(predicted: NDArray[Any], y: NDArray[Any]) -> float:
    return float((predicted == y).mean()) if y.dtype.kind != "f" else float("nan")


def raw_of(model: Any) -> NDArray[np.uint8]:
    """The trees in XGBoost's own file format; empty for other estimators."""
    booster: Any = getattr(model, "booster_", None)
    found = bytes(booster.save_raw("ubj")) if hasattr(booster, "save_raw") else b""
    return np.frombuffer(found, np.uint8)


def bytes_of(model: Any) -> int:
    """About how many bytes it takes to send the model to a party."""
    return 0 if model is None else len(raw_of(model)) or len(pickle.dumps(model))
