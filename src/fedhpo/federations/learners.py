"""The federation of learners: parties with tabular data, scikit-learn's estimators and XGBoost.

A learner is trained whole: one round is one federated training, and a trial has no second. So a method that
trains once (FLoRA) costs one round, and one that tries 20 configs costs 20.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.streams import derive
from fedhpo.data import Encoding, FederatedData, distances, from_clients
from fedhpo.data.columns import Preparation
from fedhpo.data.fingerprint import data_of
from fedhpo.data.profile import majority_share
from fedhpo.engine.task import check_task
from fedhpo.federations.trial_table import TrialTable
from fedhpo.learners.bagging import BAGGING, JOINED, Trips, boost, check_trips, read_trees
from fedhpo.learners.fingerprint import estimator_of
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.named import learner_of
from fedhpo.learners.paper import HGB, XGBOOST
from fedhpo.learners.prepare import FITTED, Prepared
from fedhpo.learners.scoring import BALANCED, FOLDS, number_of_folds, outputs_of, score_of, scorer
from fedhpo.learners.tasks import Bench, FitPooled, ScoreFold, Task
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
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialState,
    Work,
)
from fedhpo.protocol.metrics import Metric, at_clients, check_metrics
from fedhpo.protocol.query import OwnQuery
from fedhpo.protocol.reasons import Reason, Why, raised
from fedhpo.queries.local_search import LocalSearch, Outcome, PartySearch, side_by_side, unable
from fedhpo.queries.own import ask_each, party_at
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
}


@dataclass(frozen=True)
class _Trial:
    """What determines a trained estimator; the estimator itself is fitted again when it is needed."""

    model: Mapping[str, Any]
    seed: int
    client: Mapping[str, Any] | None = None
    cohort: tuple[int, ...] = ()

    @property
    def config(self) -> Config:
        return Config(client=self.client or {}, model=self.model)


class LearnerFederation(Federation):
    """Parties that train an estimator.

    Parameters
    ----------
    data
        As `fedhpo.simulate` takes it. Features reach the learner as they are, but for `scaling`, and for
        missing values: a learner that does not take them gets `data.fill` in their place. A party without
        training rows, but with validation or test rows, is a global hold-out.
    learner
        A name of `fedhpo.learners.LEARNERS` ("hgb", "svm", "mlp_sklearn", "xgboost", "cash", "lightgbm",
        "catboost"), the import path of an estimator ("sklearn.ensemble:RandomForestClassifier"), its class,
        an estimator or `Pipeline` to begin from, or a `fedhpo.learners.Learner`.
    training
        "pooled" emulates the federated training of any learner by one on all parties' rows, as the paper
        does. The others train boosted trees federated for real; "hgb" then becomes XGBoost, see
        `fedhpo.learners.boosted` for what that changes. "collective" grows each tree over all parties' rows;
        by "bagging" and "cyclic" each party grows trees on its own, see `fedhpo.learners.bagging`.
    trips
        In how many trips to the parties these two do their rounds of boosting.
    scoring
        A scorer of scikit-learn, balanced accuracy by default. It is what is optimised unless an objective
        says otherwise: by its name where that is "balanced_accuracy" or "accuracy", else as the metric
        "loss", 1 minus the score. For regression it is "r2" by default.
    scaling
        "minmax" brings every feature to 0..1, "standard" to mean 0 and variance 1, by what the parties'
        training rows add up to: a hyperparameter such as an SVM's gamma then means the same at every party.
        "fitted" leaves it to the learner, which scales by the rows it is fitted on (the paper's SVM and MLP)
        or not at all. By default "minmax" for a learner that scales, where data came as columns
        (`fedhpo.from_csv`), else "fitted".
    workers
        Processes that search and train, one per core by default; 0 for none. Results do not depend on it.

    Examples
    --------
    >>> import fedhpo as fh
    >>> data = fh.load("digits", clients=3, partition={"kind": "iid"})
    >>> federation = LearnerFederation(data, "sklearn.naive_bayes:GaussianNB", workers=0)
    >>> space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
    >>> result = fh.tune(federation, space, fh.FLoRA(configs=8, folds=3), rounds=1, cohort=3)
    >>> result.cost["rounds"], len(result.facts["flora"]["parties"])
    (1, 3)
    """

    place, fine_tunes = "simulation", False

    def __init__(
        self,
        data: Any,
        learner: Any = "hgb",
        *,
        training: Literal["pooled", "collective", "bagging", "cyclic"] = "pooled",
        trips: int = 1,
        scoring: str | None = None,
        scaling: Literal["minmax", "standard", "fitted"] | None = None,
        workers: int | None = None,
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
        if training not in TRAINING:
            raise unknown_name("training", training, TRAINING)
        if training != "pooled" and (self._learner not in (HGB, XGBOOST) or given.task == "regression"):
            raise InputError(
                f"training = {training!r} is for boosted trees (learner 'hgb' or 'xgboost'), "
                f"not {self._learner.name!r}: use 'pooled'"
            )
        check_trips(training if training in JOINED else BAGGING, trips)
        if training not in JOINED and trips != 1:
            raise InputError(f"trips = {trips}: only training = 'bagging' and 'cyclic' make several")
        scorer(scoring)  # an unknown name is an error here, not at the first party
        if self._data.task == "regression" and scoring == BALANCED:
            raise InputError(f"scoring = {scoring!r} is for classes: regression needs, say, 'r2'")
        self._scoring = scoring
        self._count = cores() if workers is None else workers
        if self._count < 0:
            raise InputError(f"workers must be at least 0, not {workers}")
        self._bench = Bench(self._learner, self._data)
        self._workers: Pool[Task] | None = None
        self._trials = TrialTable[_Trial, tuple[Work, int]]()  # a round is the work and its ticket
        self._fitted: dict[int, Any] = {}
        self._metrics: tuple[Metric, ...] = ()
        self._ended: dict[int, Ended[Task]] = {}
        self.capabilities = frozenset({QUERY, REPEATABLE})
        self.usual_space = self._learner.space
        self.train_clients = self._data.train_clients
        self.validation_clients = self._data.validation_clients
        self.test_clients = self._data.test_clients

    def preflight(self, config: Config, metric: str) -> None:
        """Names and values that the learner takes, targets that go with the metric; nothing is fitted."""
        check_task(self._data, metric)
        self._learner.check([*config.client, *config.model])
        self._learner.build(config, 0)

    # Trials

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        self._trials.add(trial, _Trial(dict(model), seed))

    def fork(self, source: int, target: int) -> None:
        raise InputError("a learner cannot fork: it is trained whole, and cannot go on under another config")

    def stop(self, trial: int) -> None:
        self._trials.stop(trial)
        self._fitted.pop(trial, None)

    @property
    def trials(self) -> Sequence[int]:
        return self._trials.numbers

    # Rounds

    def submit(self, work: Work) -> None:
        trial = self._trials[work.trial]
        self._trials.idle(work.trial)
        self.check_products(work)
        if not isinstance(work.client, Mapping):
            raise InputError("learners train with one client config for the whole cohort")
        if trial.client is not None:
            raise InputError("a learner is trained whole in one round: rounds must be 1")
        for party in work.cohort:
            if party not in self.train_clients:
                raise InputError(f"client {party} cannot train: it is not there, or has no training data")
        for name in work.server:
            raise InputError(f"server hyperparameter {name!r}: learners have none")
        self._learner.check([*work.client, *trial.model])
        trained = self._trained(work)
        ticket = self._started.submit(self._task(trained)) if self._training == "pooled" else 0
        self._trials.rounds[work.trial] = work, ticket

    def _trained(self, work: Work) -> _Trial:
        """The trial as it is after this work."""
        assert isinstance(work.client, Mapping)
        return replace(self._trials[work.trial], client=dict(work.client), cohort=tuple(work.cohort))

    @staticmethod
    def _task(trial: _Trial) -> FitPooled:
        return FitPooled(trial.cohort, trial.config, derive(trial.seed, "fit"))

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        under_way = self._trials.rounds
        if self._training != "pooled":
            number = next(iter(under_way)) if trial is None else trial
            train = self._train_collectively if self._training == "collective" else self._train_in_trips
            return self._end(number, *train(under_way[number][0]))
        wanted = {ticket: n for n, (_, ticket) in under_way.items() if trial in (None, n)}
        while not (ended := wanted.keys() & self._ended.keys()):
            done = self._started.next()
            if done is not None:
                self._ended[done.ticket] = done
        done = self._ended.pop(min(ended))
        return self._end(wanted[done.ticket], done.value, {}, done.failure)

    def _train_collectively(self, work: Work) -> tuple[Any, dict[int, Reason], Reason | None, Cost]:
        """The model, or why there is none: reasons by position in the cohort, or one for all parties.

        With it comes what it took beyond sending the model to every party.
        """
        from fedhpo.learners.boosted import BoostedTrees
        from fedhpo.learners.collective import CollectiveError, exchanged, train

        trial = self._trained(work)
        try:
            seed = derive(trial.seed, "fit") % 2**31
            trees = BoostedTrees(**{**trial.config.client, **trial.config.model}, random_state=seed)
            classes = self._data.classes or 2
            rows = {party: self._bench.rows([party]) for party in trial.cohort}
            model = trees.adopt(train(rows, trees.parameters(classes), trees.max_iter), classes)
            sent = exchanged(model.booster_, [x for x, _ in rows.values()]) * len(rows)
            return model, {}, None, Cost(bytes_down=sent, bytes_up=sent)
        except CollectiveError as error:
            why = Reason(Why.RAISED, str(error))
            blamed = {} if error.party is None else {list(trial.cohort).index(error.party): why}
            return None, blamed, why, Cost()
        except TypeError as error:
            return None, {}, Reason(Why.RAISED, str(error)), Cost()

    def _train_in_trips(self, work: Work) -> tuple[Any, dict[int, Reason], Reason | None, Cost]:
        """The same, by trees that each party grows on its own rows."""
        from fedhpo.learners.boosted import BoostedTrees

        trial, classes = self._trained(work), self._data.classes or 2
        settings = {**trial.config.client, **trial.config.model}
        rows = [self._bench.rows([party]) for party in trial.cohort]
        # Beyond the one visit of each that every training counts.
        moved = Cost(client_rounds=-len(rows), samples=-sum(len(y) for _, y in rows))
        try:
            trees = BoostedTrees(**settings, random_state=derive(trial.seed, "fit") % 2**31)
            places = list(range(len(rows)))
            trips = Trips(self._training, self._trips, trees.max_iter, places, rows[0][0].shape[1], classes)
            while not trips.over:
                now, parts = clone(trees).set_params(max_iter=trips.count), {}
                for place in trips.asked:
                    raw = boost(now, *rows[place], classes, trips.model)
                    grown, size = read_trees(raw, trips.features, classes, trips.count), len(rows[place][1])
                    moved += Cost(
                        client_rounds=1, bytes_down=len(trips.model), bytes_up=len(raw), samples=size
                    )
                    parts[place] = grown, float(size)
                trips.take(parts)
            return trees.adopt(trips.model, classes), {}, None, moved
        except (TypeError, ValueError) as error:
            return None, {}, Reason(Why.RAISED, str(error)), Cost()

    def _end(
        self,
        number: int,
        model: Any,
        blamed: dict[int, Reason],
        failure: Reason | None,
        moved: Cost | None = None,
    ) -> RoundReport:
        """The report; `moved` is what a federated training took beyond sending the model to every party."""
        work, _ = self._trials.rounds.pop(number)
        count = len(work.cohort)
        sizes = self._data.train.sizes[list(work.cohort)]
        if not failure:
            self._trials[number] = self._trained(work)
            self._fitted[number] = model
        status = np.full(count, Status.FAILED if failure and not blamed else Status.OK, np.int8)
        if blamed:  # the others were stopped because of these
            status[:] = Status.MISSING
            status[list(blamed)] = Status.FAILED
        reasons = dict.fromkeys(range(count), failure) if failure else {}
        if failure and blamed:
            reasons = dict.fromkeys(range(count), Reason(Why.GONE, failure.text)) | blamed
        nan = np.full(count, np.nan)
        return RoundReport(
            number,
            0 if failure else 1,
            not failure,
            np.array(work.cohort, np.int64),
            status,
            sizes,
            self._data.validation.sizes[list(work.cohort)],
            nan,
            nan.copy(),
            nan.copy(),
            nan.copy(),
            reasons,
            Cost(
                # A failure does not count as a round: the budget often has only one; it may be tried again.
                rounds=0 if failure else 1,
                client_rounds=count,
                # In trips, what is sent at every visit is in `moved`.
                bytes_down=0 if failure or self._training in JOINED else _bytes(model) * count,
                samples=int(sizes.sum()),
            )
            + (moved or Cost()),
        )

    # Scores

    def measure(self, metrics: Sequence[Metric]) -> None:
        check_metrics(metrics, self.task)
        self._metrics = tuple(metrics)

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        self._trials.idle(*trials)
        if split not in get_args(SplitName):
            raise unknown_name("split", split, get_args(SplitName))
        chosen = self._known(clients)
        return [self._scores(trial, chosen, split) for trial in trials]

    def _known(self, clients: Sequence[int] | Ints) -> Ints:
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
        metrics = {metric.name: np.full(len(clients), np.nan) for metric in self._metrics}
        parts: dict[int, tuple[Any, Any]] = {}
        for place, client in enumerate(clients.tolist()):
            if not sizes[place] or model is None:
                continue
            x, y = self._bench.rows([client], split)
            try:
                loss[place] = 1 - score_of(model, x, y, self._scoring)
                accuracy[place] = _accuracy(model.predict(x), y)
                if self._metrics:
                    own = outputs_of(model, x, self._data.classes), y
                    for metric in self._metrics:
                        metrics[metric.name][place] = metric.value(*own)
                    parts[place] = own
            except Exception as error:
                status[place], reasons[place] = Status.FAILED, raised(error)
        for metric in self._metrics:
            if metric.pooled and parts:
                metrics[metric.name][list(parts)] = at_clients(metric, list(parts.values()))
        cost = Cost(
            evaluations=len(clients),
            bytes_down=_bytes(model) * len(clients),
            bytes_up=(_SCORE_BYTES + 8 * len(metrics)) * len(clients),
        )
        found = Scores(trial, split, clients, status, sizes, loss, accuracy, reasons, cost, metrics)
        return checked_scores(found)

    # Local search

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        if isinstance(task, OwnQuery):
            return self._answers(task, [int(c) for c in self._known(clients)])
        if not isinstance(task, LocalSearch):
            known = f"{LocalSearch.name!r} and those that have an `answer`"
            raise InputError(f"a federation of learners answers the queries {known}, not {task.name!r}")
        scoring = self._scoring if task.scoring in (None, "loss") else str(task.scoring)
        chosen = [int(c) for c in self._known(clients)]
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
        trainer = _Folds(self._started, task, scoring, folds, {p: s.size for p, s in searches.items()})
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

    # State

    def state(self, trial: int) -> TrialState:
        one = self._trials[trial]
        facts = {"model": dict(one.model), "seed": one.seed, "client": one.client, "cohort": list(one.cohort)}
        return TrialState({"booster": _raw(self._fitted.get(trial))}, facts)

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.idle(trial)
        facts = dict(state.facts)
        self._trials[trial] = _Trial(facts["model"], facts["seed"], facts["client"], tuple(facts["cohort"]))
        self._fitted.pop(trial, None)
        raw: NDArray[np.uint8] = state.arrays["booster"]
        if len(raw):
            from fedhpo.learners.boosted import BoostedTrees

            one = self._trials[trial]
            trees = BoostedTrees(**{**one.config.client, **one.config.model})
            self._fitted[trial] = trees.adopt(raw.tobytes(), self._data.classes or 2)

    def model(self, trial: int) -> Any:
        """The trial's estimator; None before it is trained."""
        one = self._trials[trial]
        if one.client is None:
            return None
        if trial not in self._fitted:  # brought back from a file, which holds no estimator: fit it again
            self._fitted[trial] = self._task(one).run(self._bench)
        return self._fitted[trial]

    def describe(self) -> dict[str, Any]:
        return {
            "runtime": "learners",
            "data": self._data.name,
            "clients": self._data.clients,
            "learner": self._learner.name,
            "training": TRAINING[self._training],
            **({"trips": self._trips} if self._training in JOINED else {}),
            "scoring": self._scoring,
            **self._prepared.describe(),
            "workers": self._count,
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
        return self._scoring

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
            "settings": {
                "training": self._training,
                "scoring": self._scoring,
                **({"trips": self._trips} if self._trips > 1 else {}),
                **({"scaling": self._prepared.scaling} if self._prepared.scaling != FITTED else {}),
            },
        }

    def distances(self, clients: Sequence[int] | Ints, seed: int) -> dict[str, Any] | None:
        return distances(self._data, self._known(clients), seed)

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
            self._workers = start_workers(self._bench, self._count)
        return self._workers

    def close(self) -> None:
        if self._workers is not None:
            self._workers.close()
            self._workers = None
        self._trials.clear()
        self._fitted.clear()
        self._ended.clear()


class _Folds:
    """Scores configs at parties, fold by fold: a party's folds, and parties, side by side."""

    def __init__(
        self,
        workers: Pool[Task],
        task: LocalSearch,
        scoring: str,
        folds: Mapping[int, int],
        sizes: Mapping[int, int],
    ) -> None:
        self._workers, self._task, self._scoring = workers, task, scoring
        self._folds, self._sizes = folds, sizes
        self._tickets: dict[int, tuple[int, int]] = {}
        self._scores: dict[int, dict[int, Ended[Task]]] = {}
        #: What ended meanwhile and is not ours.
        self.others: dict[int, Ended[Task]] = {}

    def submit(self, party: int, config: Config) -> None:
        seed = derive(self._task.seed, "folds", party)
        self._scores[party] = {}
        for fold in range(self._folds[party]):
            work = ScoreFold(party, config, fold, self._folds[party], self._scoring, seed)
            self._tickets[self._workers.submit(work)] = party, fold

    def next(self, seconds: float | None) -> Outcome | None:
        done = self._workers.next(seconds)
        if done is None:
            return None
        if done.ticket not in self._tickets:
            self.others[done.ticket] = done
            return None
        party, fold = self._tickets.pop(done.ticket)
        self._scores[party][fold] = done
        if len(self._scores[party]) < self._folds[party]:
            return None
        ended = [self._scores[party][fold] for fold in range(self._folds[party])]
        failures = [one.failure for one in ended if one.failure]
        # As if all folds that were asked for could be made: how many could tells of the rarest class.
        trained = self._sizes[party] * ((self._task.folds or FOLDS) - 1)
        if failures:
            return Outcome(party, None, failures[0].text, trained)
        return Outcome(party, 1 - float(np.mean([one.value for one in ended])), "", trained)

    def abandon(self) -> None:
        self._workers.cancel(self._tickets)


def _accuracy(predicted: NDArray[Any], y: NDArray[Any]) -> float:
    return float((predicted == y).mean()) if y.dtype.kind != "f" else float("nan")


def _raw(model: Any) -> NDArray[np.uint8]:
    """The trees in XGBoost's own file format; empty for other estimators."""
    booster: Any = getattr(model, "booster_", None)
    found = bytes(booster.save_raw("ubj")) if hasattr(booster, "save_raw") else b""
    return np.frombuffer(found, np.uint8)


def _bytes(model: Any) -> int:
    """About how many bytes it takes to send the model to a party."""
    return 0 if model is None else len(_raw(model)) or len(pickle.dumps(model))
