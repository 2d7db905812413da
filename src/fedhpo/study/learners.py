"""Studies whose model is a learner: which keys `[model]` then has, and the federation they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError
from fedhpo.core.objects import import_object
from fedhpo.core.phrasing import shown
from fedhpo.learners import HGB, LEARNERS, XGBOOST, Algorithms, Learner
from fedhpo.learners.averaging import AVERAGING
from fedhpo.learners.bagging import JOINED
from fedhpo.space import Space
from fedhpo.study.sections import Model, StudyFile

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.federations.learners import LearnersHere

#: An estimator of the user's choice, by its import path.
ESTIMATOR = "estimator"
NAMES = (*LEARNERS, ESTIMATOR)
#: Learners whose trees real clients can join to one model.
BOOSTED = (HGB.name, XGBOOST.name)
#: Learners whose trees look at the order of rows only.
TREES = (*BOOSTED, "lightgbm", "catboost")
#: Keys of [model] that are no hyperparameters of the learner, with their defaults.
OPTIONS: Mapping[str, Any] = {"training": "pooled", "trips": 1, "scoring": None, "scaling": None}
OPTIONS_OF_ESTIMATOR: Mapping[str, Any] = {"path": "required", "scale": False, **OPTIONS}


def is_learner(model: Model) -> bool:
    """Whether the parties train an estimator rather than a torch model."""
    return model.name in NAMES


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


def check_learner(file: StudyFile, space: Space) -> None:
    """What can be known to be wrong before any data is read."""
    learner = learner_in(file.model)
    for scope in ("client", "model"):
        for key in space.scope(scope):
            where = f"model.{key}" if key in file.model.others else f"space.{scope}.{key}"
            try:
                learner.check([key])
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
    if "trips" in file.model.others and file.model.name not in BOOSTED:
        found = f"model.trips = {shown(file.model.others['trips'])}: has no effect with {file.model.name}"
        refuse([f"{found}; boosted trees honour it: leave it out"])
    if "scaling" in file.model.others and file.model.name in TREES:
        found = f"model.scaling = {shown(file.model.others['scaling'])}: has no effect with {file.model.name}"
        refuse(
            [f"{found}, whose trees split rows by their order; svm and mlp_sklearn honour it: leave it out"]
        )
    if space.scope("server"):
        raise InputError("space.server: learners have no hyperparameters of the server; leave it out")
    if not space.names:
        raise InputError(f"space has nothing to tune: {file.model.name} has no space of its own")
    if file.budget.rounds != 1:
        raise InputError(
            f"budget.rounds = {file.budget.rounds}: must be 1 where model.name = {file.model.name!r}, "
            "as a learner is trained whole in one round"
        )


def learner_federation(
    model: Model,
    data: FederatedData,
    workers: int | None,
    ray: str | None = None,
    aggregation: Callable[[], Aggregation] = Aggregation,
) -> LearnersHere:
    """The federation that trains the learner; `aggregation()` is how parties' models are joined."""
    from fedhpo.parties.learners import LearnerFederation

    values = {key: model.others.get(key, default) for key, default in OPTIONS.items()}
    if "trips" in model.others and values["training"] not in JOINED:
        found = (
            f"model.trips = {shown(values['trips'])}: has no effect with training = {values['training']!r}"
        )
        refuse([f"{found}; 'bagging' and 'cyclic' make several: leave it out"])
    for key, value in values.items():
        if value is not None and key != "trips" and not isinstance(value, str):
            raise InputError(f"model.{key} = {shown(value)}: must be a string")
    try:
        how = aggregation() if values["training"] in (*JOINED, AVERAGING) else None
        return LearnerFederation(data, learner_in(model), workers=workers, ray=ray, aggregation=how, **values)
    except InputError as error:
        raise InputError(f"model: {error}") from None
