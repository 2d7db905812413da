"""Learners whose parties train on their own rows in a simulation, by the parties of Flower and NVFlare.

Party, mailbox and the server's side are shared; what differs is the transport, a pool of workers here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.federations.learners import TRAINING, LearnersHere
from fedhpo.federations.pooled import PooledLearners
from fedhpo.federations.remote.base import RemoteClients
from fedhpo.federations.remote.estimators import RemoteEstimatorFederation
from fedhpo.federations.remote.learners import RemoteLearnerFederation
from fedhpo.federations.remote.messages import HELLO, QUERY
from fedhpo.federations.remote.pool import PATIENT, Ask, PoolTransport
from fedhpo.learners.averaging import AVERAGING
from fedhpo.learners.bagging import BAGGING, JOINED, check_trips
from fedhpo.learners.prepare import FITTED
from fedhpo.learners.tasks import Bench
from fedhpo.parties.answers import Answers
from fedhpo.parties.estimators import EstimatorParty
from fedhpo.parties.rows import NodeRows
from fedhpo.parties.serving import Parties
from fedhpo.parties.trees import TreesParty
from fedhpo.protocol.federation import Federation, Ints, Scores, SplitName, TrialState
from fedhpo.protocol.metrics import by_name

_KINDS = {"trees": TreesParty, "estimators": EstimatorParty}
_SERVED: WeakKeyDictionary[Bench, dict[Any, Parties]] = WeakKeyDictionary()


@dataclass(frozen=True)
class AskParty:
    """A worker's task: one message to one party, which holds its share of the worker's rows."""

    ask: Ask
    kind: str
    scoring: str

    def run(self, bench: Bench) -> dict[str, Any]:
        """The party's reply."""
        known = _SERVED.setdefault(bench, {})
        key = self.kind, self.scoring
        if key not in known:
            learner: Any = bench.learner
            data = bench.data  # the bench itself would keep itself alive
            party: Any = _KINDS[self.kind](learner, NodeRows(lambda: data, None), self.scoring)
            known[key] = Parties(Answers(party, {}, lambda: 0.0))
        return known[key](self.ask)


class _Asked(LearnersHere):
    """The common part of learners whose parties are asked by messages in a simulation."""

    _kind_of_party: str

    def _transport(self) -> PoolTransport:
        kind, scoring = self._kind_of_party, self._scored_by

        def job(ask: Ask) -> AskParty:
            return AskParty(ask, kind, scoring)

        bench = self._bench
        return PoolTransport(
            lambda: self._started,
            self._data.clients,
            job=job,
            here={f"{QUERY}.{HELLO}": lambda ask: job(ask).run(bench)},
            others=self._ended,
        )

    def stable_name(self, client: int) -> str | None:
        return Federation.stable_name(self, client)

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        if any(metric.pooled or not by_name(metric) for metric in self._measured):
            return super().evaluate(trials, clients, split)  # needs all rows, or a function
        asked: Any = self
        asked._metrics = tuple(metric.name for metric in self._measured)
        return RemoteClients.evaluate(asked, trials, self._chosen(clients), split)


class TreesHere(_Asked, RemoteLearnerFederation):
    """Parties in a simulation that boost trees, joined by bagging or in cycles."""

    _kind_of_party, _reach = "trees", None  # nobody lies here

    def __init__(self, data: Any, learner: Any, aggregation: Aggregation, **settings: Any) -> None:
        LearnersHere.__init__(self, data, learner, **settings)
        self._aggregation = aggregation
        RemoteLearnerFederation.__init__(
            self,
            self._transport(),
            weighting=aggregation.weighting,
            scoring=self._scored_by,
            training=self._training,
            trips=self._trips,
            clients=self._data.clients,
            weight_cap=aggregation.cap,
            **PATIENT,
        )

    def model(self, trial: int) -> Any:
        """The trial's estimator; None before it is trained."""
        return RemoteLearnerFederation.model(self, trial)

    def state(self, trial: int) -> TrialState:
        found, one = RemoteLearnerFederation.state(self, trial), self._trials[trial]
        return TrialState(
            found.arrays, {**found.facts, "client": one.client or None, "cohort": list(one.cohort)}
        )

    def _settings(self) -> dict[str, Any]:
        return LearnersHere._settings(self) | _changed(self._aggregation)

    def close(self) -> None:
        LearnersHere.close(self)
        RemoteLearnerFederation.close(self)


class EstimatorsHere(_Asked, RemoteEstimatorFederation):
    """Parties in a simulation that exchange the weights of an MLP."""

    _kind_of_party = "estimators"

    def __init__(self, data: Any, learner: Any, aggregation: Aggregation, **settings: Any) -> None:
        LearnersHere.__init__(self, data, learner, **settings)
        RemoteEstimatorFederation.__init__(
            self,
            self._transport(),
            self._learner,
            aggregation=aggregation,
            scoring=self._scored_by,
            clients=self._data.clients,
            weight_cap=aggregation.cap,
            **PATIENT,
        )
        self._training = AVERAGING

    def model(self, trial: int) -> Any:
        """The trial's estimator; None before it is trained."""
        return RemoteEstimatorFederation.model(self, trial)

    def _settings(self) -> dict[str, Any]:
        return LearnersHere._settings(self) | _changed(self._aggregation)

    def close(self) -> None:
        LearnersHere.close(self)
        RemoteEstimatorFederation.close(self)


def _changed(aggregation: Aggregation) -> dict[str, Any]:
    usual = Aggregation().to_dict()
    return {name: value for name, value in aggregation.to_dict().items() if value != usual.get(name)}


def LearnerFederation(
    data: Any,
    learner: Any = "hgb",
    *,
    training: Literal["pooled", "collective", "bagging", "cyclic", "averaging"] = "pooled",
    trips: int = 1,
    scoring: str | None = None,
    scaling: Literal["minmax", "standard", "fitted"] | None = None,
    aggregation: Aggregation | None = None,
    workers: int | None = None,
    ray: str | None = None,
) -> LearnersHere:
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
        does. The next three train boosted trees federated for real; "hgb" then becomes XGBoost, see
        `fedhpo.learners.boosted` for what that changes. "collective" grows each tree over all parties' rows;
        by "bagging" and "cyclic" each party grows trees on its own, see `fedhpo.learners.bagging`. By
        "averaging" parties exchange the weights of an MLP ("mlp_sklearn"), see `fedhpo.learners.averaging`.
        The last three are done by the same code as over Flower and NVFlare.
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
        (`fedhpo.from_csv`), else "fitted"; always "fitted" by averaging, as over Flower.
    aggregation
        How weights are averaged; by bagging only `weighting` and `weight_cap` count, in cycles `weight_cap`.
    workers
        Processes that search and train, one per core by default; 0 for none. Results do not depend on it.
    ray
        The address of a Ray cluster whose workers take their place, "auto" for one on this machine.

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
    if training not in TRAINING:
        raise unknown_name("training", training, TRAINING)
    settings: dict[str, Any] = {
        "training": training,
        "trips": trips,
        "scoring": scoring,
        "scaling": FITTED if training == AVERAGING and scaling is None else scaling,
        "workers": workers,
        "ray": ray,
    }
    check_trips(training if training in JOINED else BAGGING, trips)
    if training not in JOINED and trips != 1:
        raise InputError(f"trips = {trips}: only training = 'bagging' and 'cyclic' make several")
    if aggregation is not None and training in ("pooled", "collective"):
        raise InputError(f"aggregation: training = {training!r} has nothing to join; leave it out")
    made: LearnersHere
    if training in JOINED:
        made = TreesHere(data, learner, aggregation or Aggregation(), **settings)
    elif training == AVERAGING:
        made = EstimatorsHere(data, learner, aggregation or Aggregation(), **settings)
    else:
        made = PooledLearners(data, learner, **settings)
    return made
