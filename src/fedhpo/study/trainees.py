"""Studies whose `[model]` names a trainee of the user's own: `fedhpo.parties.trainee`."""

from __future__ import annotations

from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.objects import import_object, is_own
from fedhpo.core.registry import Registry
from fedhpo.models import MODELS
from fedhpo.parties.trainee import Trainee, is_trainee
from fedhpo.space import Space
from fedhpo.study.from_dataclass import build
from fedhpo.study.learners import is_learner
from fedhpo.study.sections import Model

trainees: Registry[type[Any]] = Registry("trainee", {}, word="trainee")


def trainee_class(model: Model) -> type[Any] | None:
    """The class of trainees that [model] names, if it names one."""
    if is_learner(model) or model.name in MODELS:
        return None
    if is_own(model.name):
        found = import_object(model.name, "model.name", called=False)
        if not callable(found):
            estimator = f": an estimator is written name = 'estimator', path = {model.name!r}"
            more = estimator if hasattr(found, "fit") else ""
            kind = type(found).__name__
            raise InputError(
                f"model.name = {model.name!r}: must be a function or a class, found {kind}{more}"
            )
        return found if is_trainee(found) else None
    return trainees.find(model.name, "model.name") if trainees.brings(model.name) else None


def trainee_in(model: Model) -> Trainee | None:
    """The trainee with its settings, if [model] names one; a key that it does not have is refused."""
    kind = trainee_class(model)
    if kind is None:
        return None
    made: Trainee = build(kind, model.others, "model")
    return made


def check_trainee(trainee: Trainee, space: Space) -> None:
    """Refuse a study that tunes nothing, or names that the trainee does not take."""
    if not space.names:
        raise InputError("space has nothing to tune: write, say, lr = { low = 1e-3, high = 1.0, log = true }")
    names = trainee.hyperparameters
    for key in space.scope("client") if names is not None else ():
        if key not in (names or ()):
            kind = f"hyperparameter of {type(trainee).__name__}"
            raise InputError(f"space.client.{key}: {unknown_name(kind, key, names or ())}")
