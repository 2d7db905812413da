"""Studies of a learner: which keys `[model]` then has, and how it is trained where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.claims import Part, refuse
from fedhpo.core.errors import InputError
from fedhpo.core.objects import import_object
from fedhpo.core.phrasing import shown
from fedhpo.federations.learners import TRAINING
from fedhpo.learners import HGB, LEARNERS, XGBOOST, Algorithms, Learner
from fedhpo.learners.averaging import AVERAGING, can_average
from fedhpo.learners.bagging import BAGGING, JOINED
from fedhpo.learners.prepare import FITTED
from fedhpo.protocol.objective import BALANCED, objective_of
from fedhpo.study.kinds.kind import Kind
from fedhpo.study.parts import (
    ALONE,
    ASKED,
    ASKED_ALONE,
    AVERAGED,
    BAGGED,
    CYCLIC,
    PLACES,
    POOLED,
    POOLED_ROWS,
    SIMULATION,
)
from fedhpo.study.sections import Model

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.federations.remote.base import RemoteClients
    from fedhpo.federations.remote.transport import Transport
    from fedhpo.parties.party import AskedParty
    from fedhpo.parties.rows import NodeRows
    from fedhpo.protocol.federation import Federation

#: An estimator of the user's choice, by its import path.
ESTIMATOR = "estimator"
NAMES = (*LEARNERS, ESTIMATOR)
#: Learners whose trees real clients can join to one model.
BOOSTED = (HGB.name, XGBOOST.name)
#: Learners whose trees look at the order of rows only.
TREES = (*BOOSTED, "lightgbm", "catboost")
#: Keys of [model] that are no hyperparameters of the learner, with their defaults.
OPTIONS: Mapping[str, Any] = {"training": "pooled", "trips": 1, "scoring": None, "scaling": None}
#: Of trees that parties grow and the server joins.
_OTHER_TREES = (
    "model.name = 'hgb': joined trees are XGBoost's, with the hyperparameters of the same names; "
    "scikit-learn's are trained where rows are pooled"
)
OPTIONS_OF_ESTIMATOR: Mapping[str, Any] = {"path": "required", "scale": False, **OPTIONS}


def _options(model: Model) -> Mapping[str, Any]:
    return OPTIONS_OF_ESTIMATOR if model.name == ESTIMATOR else OPTIONS


def learner_in(model: Model) -> Learner | Algorithms:
    """The learner that [model] names."""
    if model.name != ESTIMATOR:
        return LEARNERS[model.name]
    path, scale = model.others.get("path"), model.others.get("scale", False)
    if not isinstance(path, str):
        raise InputError(
            "model.path is missing: write, say, path = 'sklearn.ensemble:RandomForestClassifier'"
        )
    if not isinstance(scale, bool):
        raise InputError(f"model.scale = {shown(scale)}: must be true or false")
    import_object(path, "model.path", called=False)  # a pipeline to begin from is not
    learner = Learner(path.partition(":")[2], path, scale=scale)
    learner.load()
    return learner


def learner_tables(model: Model, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of the space: those given, or the learner's own; with what [model] fixes."""
    fixed = {key: value for key, value in model.others.items() if key not in _options(model)}
    found = {scope: dict(table) for scope, table in tables.items() if table}
    own = learner_in(model).space
    if not found.keys() - {"policy"} and own is not None:  # knobs of a method are no hyperparameters of it
        found |= {scope: table for scope, table in own.to_dict().items() if table}
        found["client"] = {key: table for key, table in found["client"].items() if key not in fixed}
    for scope, table in found.items():
        for key in table:
            if key in fixed and scope != "model":
                raise InputError(f"model.{key} is fixed here and also in space.{scope}.{key}: keep one")
    if fixed:
        found["model"] = {**found.get("model", {}), **{key: {"value": value} for key, value in fixed.items()}}
    return found


class LearnerKind(Kind):
    """An estimator that parties train, whole in one round.

    In a simulation rows are pooled unless the study says otherwise; over messages an MLP's weights are
    averaged, and of other estimators the config is the result.
    """

    def check_space(self) -> None:
        """Refuse hyperparameters that the learner does not have, and settings that it does not know."""
        model, space, learner = self.file.model, self.study.space, learner_in(self.file.model)
        for scope in ("client", "model"):
            for key in space.scope(scope):
                where = f"model.{key}" if key in model.others else f"space.{scope}.{key}"
                try:
                    learner.check([key])
                except InputError as error:
                    raise InputError(f"{where}: {error}") from None
        self.check_trips()
        if "scaling" in model.others and model.name in TREES:
            found = f"model.scaling = {shown(model.others['scaling'])}: has no effect with {model.name}"
            more = "whose trees split rows by their order; svm and mlp_sklearn honour it"
            refuse([f"{found}, {more}: leave it out"])
        if space.scope("server"):
            raise InputError("space.server: learners have no hyperparameters of the server; leave it out")
        if not space.names:
            raise InputError(f"space has nothing to tune: {model.name} has no space of its own")
        if self.file.budget.rounds != 1:
            raise InputError(
                f"budget.rounds = {self.file.budget.rounds}: must be 1 where model.name = {model.name!r}, "
                "as a learner is trained whole in one round"
            )

    def check_trips(self) -> None:
        """Only boosted trees grow in several trips."""
        if "trips" in self.file.model.others:
            found = f"model.trips = {shown(self.file.model.others['trips'])}: has no effect with "
            refuse([f"{found}{self.file.model.name}; boosted trees honour it: leave it out"])

    def tables(self, given: dict[str, Any]) -> Mapping[str, Any]:
        """The learner's own space where none is given, with what [model] fixes."""
        return learner_tables(self.file.model, given)

    def objective(self, given: dict[str, Any]) -> dict[str, Any]:
        """The metric goes with `model.scoring`."""
        if "metric" in given:
            return given
        scoring = self.file.model.others.get("scoring") or BALANCED
        return {"metric": objective_of(scoring).metric, **given}

    def training(self, place: str) -> str | None:
        """How it is trained there, as the study says or by default; None where clients train alone."""
        if "training" in self.file.model.others:
            return str(self.file.model.others["training"])
        return self.training_over_messages if self._asked(place) else POOLED_ROWS

    def _asked(self, place: str) -> bool:
        """Whether parties are asked by messages there: at a [place] of the simulation too."""
        return place != SIMULATION or self.file.place is not None

    @property
    def training_over_messages(self) -> str | None:
        """How clients train it that are asked by messages, unless the study says."""
        return AVERAGING if can_average(learner_in(self.file.model)) else None

    def part(self, place: str) -> Part:
        """By its training."""
        if self.training(place) == AVERAGING:
            return AVERAGED
        return ALONE if self._asked(place) else POOLED

    def claims(self, place: str) -> list[Part]:
        """Estimators that are trained alone stay where they are."""
        found = super().claims(place)
        return [ASKED_ALONE if one is ASKED and found[0] is ALONE else one for one in found]

    def said(self, place: str) -> list[str]:
        """How it is trained where the study does not say so: it differs by place."""
        there = self.training_over_messages
        if "training" in self.file.model.others or there is None:  # clients keep models of their own
            return []
        if not self._asked(place):
            elsewhere = (
                f"over Flower and NVFlare it is by {there}; write training = {there!r} for the same here"
            )
            return [
                f"model.training is left out: trained pooled: all parties' rows in one place; {elsewhere}"
            ]
        return [
            f"model.training is left out: trained by {TRAINING[str(self.training(place))]}; "
            "a simulation pools rows"
        ]

    def simulated(self, data: FederatedData, workers: int | None, ray: str | None) -> Federation:
        """On this machine, or on a Ray cluster."""
        from fedhpo.parties.learners import LearnerFederation

        given = self.file.model.others
        values = {key: given.get(key, default) for key, default in OPTIONS.items()}
        if "trips" in given and values["training"] not in JOINED:
            found = f"model.trips = {shown(values['trips'])}: has no effect with training = "
            refuse([f"{found}{values['training']!r}; 'bagging' and 'cyclic' make several: leave it out"])
        for key, value in values.items():
            if value is not None and key != "trips" and not isinstance(value, str):
                raise InputError(f"model.{key} = {shown(value)}: must be a string")
        try:
            joins = values["training"] in (*JOINED, AVERAGING)
            how = self.study.aggregation(default=Aggregation()) if joins else None
            learner = learner_in(self.file.model)
            return LearnerFederation(data, learner, workers=workers, ray=ray, aggregation=how, **values)
        except InputError as error:
            raise InputError(f"model: {error}") from None

    def over(
        self, transport: Transport, default: Aggregation, settings: dict[str, Any], model: Any = None
    ) -> RemoteClients:
        """Over the clients that a transport reaches."""
        given, where = self.file.model.others, PLACES[transport.runtime]
        if given.get("scaling") not in (None, FITTED):
            raise InputError(
                f"model.scaling = {given['scaling']!r}: {where} nobody knows the range of all "
                f"clients' rows; leave it out, or write {FITTED!r}"
            )
        cap = self.file.server.weight_cap
        settings = {"scoring": given.get("scoring") or BALANCED, **settings}
        return self.joined(transport, default, settings | ({} if cap is None else {"weight_cap": cap}))

    def joined(self, transport: Transport, default: Aggregation, settings: dict[str, Any]) -> RemoteClients:
        """The server's side of it."""
        from fedhpo.federations.remote.estimators import RemoteEstimatorFederation

        given, learner = self.file.model.others, learner_in(self.file.model)
        averages = can_average(learner)
        if given.get("training", AVERAGING) != AVERAGING or ("training" in given) > averages:
            more = f", or write {AVERAGING!r}" if averages else ""
            raise InputError(
                f"model.training = {given['training']!r}: {PLACES[transport.runtime]} an MLP is trained by "
                f"averaging, and others by each client alone; leave it out{more}"
            )
        how = self.study.aggregation(default=default)
        return RemoteEstimatorFederation(transport, learner, aggregation=how, **settings)

    def rows(self) -> FederatedData:
        """All rows: a learner prepares those with missing values."""
        return self.study.load_data()

    def party(self, rows: NodeRows, device: str) -> AskedParty:
        """Trains the estimator on its own rows."""
        from fedhpo.parties.estimators import EstimatorParty

        return EstimatorParty(learner_in(self.file.model), rows, self.file.model.others.get("scoring"))


class TreesKind(LearnerKind):
    """Boosted trees, which real clients join to one model.

    Clients may search with scikit-learn's trees ("hgb"); what they train is XGBoost's, under the same names.
    """

    training_over_messages = BAGGING

    def said(self, place: str) -> list[str]:
        """Which trees they are where parties grow them, and how they are trained by default."""
        other = self.file.model.name == HGB.name and self.training(place) in JOINED
        return [*([_OTHER_TREES] if other else []), *super().said(place)]

    def check_trips(self) -> None:
        """They may grow in several."""

    def part(self, place: str) -> Part:
        """By its training."""
        training = self.training(place)
        if training in JOINED:
            return BAGGED if training == BAGGING else CYCLIC
        return super().part(place)

    def joined(self, transport: Transport, default: Aggregation, settings: dict[str, Any]) -> RemoteClients:
        """The server's side of it."""
        from fedhpo.federations.remote.learners import RemoteLearnerFederation

        given = self.file.model.others
        training, trips = given.get("training", BAGGING), given.get("trips", 1)
        if training not in JOINED:
            raise InputError(
                f"model.training = {training!r}: {PLACES[transport.runtime]} boosted trees are trained by "
                f"{' or '.join(map(repr, JOINED))}"
            )
        return RemoteLearnerFederation(
            transport, weighting=self.study.weighting, training=training, trips=trips, **settings
        )

    def party(self, rows: NodeRows, device: str) -> AskedParty:
        """Grows trees on its own rows."""
        from fedhpo.parties.trees import TreesParty

        return TreesParty(learner_in(self.file.model), rows, self.file.model.others.get("scoring"))
