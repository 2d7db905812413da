"""What a party can train: an estimator with scikit-learn's methods, its space, and what stays fixed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fedhpo.core.errors import InputError, MissingExtraError, unknown_name
from fedhpo.core.settings import check_settings, shown
from fedhpo.space import Choice, Space
from fedhpo.space.config import Config, Frozen


@dataclass(frozen=True)
class Learner:
    """An estimator; its hyperparameters are those of the scope `client`.

    `estimator` is an import path, a class with scikit-learn's methods, or an estimator to begin from, such as
    a `Pipeline`: that is cloned, and a step's hyperparameter is called `step__name`, as in scikit-learn.
    `regressor` is the path of the one that takes its place where targets are numbers.

    `space` is the paper's, or None where users bring their own. `fixed` are arguments that no config
    changes. With `scale` features are brought to 0..1 by the rows that the estimator is fitted on, those
    of a fold's training part only. `default` is the paper's baseline, which may lie outside the space.

    >>> forest = Learner("forest", "sklearn.ensemble:RandomForestClassifier", fixed={"n_estimators": 5})
    >>> forest.build(Config(client={"max_depth": 2}), seed=0)
    RandomForestClassifier(max_depth=2, n_estimators=5, random_state=0)
    """

    name: str
    estimator: Any
    space: Space | None = None
    fixed: Mapping[str, Any] = field(default_factory=Frozen)
    scale: bool = False
    default: Mapping[str, Any] = field(default_factory=Frozen)
    regressor: str | None = None
    #: The extra that installs the estimator's package.
    extra: str | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.space is not None and not isinstance(self.space, Space):
            raise InputError(f"space must be a fedhpo.Space or None, not {shown(self.space)}")
        object.__setattr__(self, "fixed", Frozen(self.fixed))
        object.__setattr__(self, "default", Frozen(self.default))

    def build(self, config: Config, seed: int) -> Any:
        """The estimator, not fitted yet; `seed` is its and its steps' `random_state`, if they have one."""
        kind = self.load()
        arguments = {**self.fixed, **config.client, **config.model}
        try:
            made = kind(**arguments) if isinstance(kind, type) else _cloned(kind, arguments)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name}: {error}") from None
        known = made.get_params()
        seeds = [name for name in known if name == "random_state" or name.endswith("__random_state")]
        fixed_by_user = {} if isinstance(kind, type) else known
        made.set_params(**{name: seed for name in seeds if fixed_by_user.get(name) is None})
        if not self.scale:
            return made
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MinMaxScaler

        return make_pipeline(MinMaxScaler(), made)

    def load(self) -> Any:
        """The estimator's class, or the estimator to begin from."""
        if not isinstance(self.estimator, str):
            return _checked(self.estimator, shown(self.estimator))
        module, _, name = self.estimator.partition(":")
        if not module or not name:
            raise InputError(f"estimator = {self.estimator!r}: must be 'package.module:Name'")
        try:
            found = getattr(importlib.import_module(module), name)
        except ImportError as error:
            if self.extra is not None and error.name == module.partition(".")[0]:
                raise MissingExtraError(error.name, self.extra) from None
            raise InputError(f"estimator = {self.estimator!r}: cannot be imported: {error}") from None
        except AttributeError as error:
            raise InputError(f"estimator = {self.estimator!r}: cannot be imported: {error}") from None
        return _checked(found, repr(self.estimator))

    def for_task(self, task: str) -> Learner:
        """The learner for classes or for numbers."""
        if task != "regression" or self.regressor is None:
            return self
        return replace(self, estimator=self.regressor, regressor=None)

    def unscaled(self) -> Learner:
        """The same on features as they come."""
        return replace(self, scale=False)

    @property
    def takes_missing(self) -> bool:
        """Whether the estimator takes features with NaN, as far as it says."""
        from sklearn.utils import get_tags

        try:
            return bool(get_tags(self.build(Config(), 0)).input_tags.allow_nan)
        except (AttributeError, TypeError, InputError):
            return False

    @property
    def arguments(self) -> list[str] | None:
        """The names of what the estimator takes; None where it takes any."""
        kind = self.load()
        if not isinstance(kind, type):
            return list(kind.get_params())
        parameters = inspect.signature(kind).parameters.values()
        free = any(one.kind is one.VAR_KEYWORD for one in parameters)
        return None if free else [one.name for one in parameters]

    def check(self, names: Iterable[str]) -> None:
        """Refuse names that the estimator does not take."""
        known = self.arguments
        for name in names if known is not None else ():
            if name not in (known or ()):
                raise unknown_name(f"hyperparameter of {self.name}", name, known or ())


def _checked(found: Any, told: str) -> Any:
    """A class or an object with the methods of an estimator."""
    for method in ("fit", "predict", "get_params", "set_params"):
        if not hasattr(found, method):
            raise InputError(
                f"estimator = {told}: must have fit, predict, get_params and set_params, lacks {method}"
            )
    return found


def _cloned(estimator: Any, arguments: Mapping[str, Any]) -> Any:
    from sklearn.base import clone

    return clone(estimator).set_params(**arguments)


@dataclass(frozen=True)
class Algorithms:
    """Several learners, the choice among them a hyperparameter too (CASH): `model.algorithm`.

    A learner's hyperparameters are active only where it is the algorithm.

    >>> from fedhpo.learners import HGB, SVM
    >>> both = Algorithms((HGB, SVM))
    >>> both.space.complete({"model": {"algorithm": "svm"}}).client
    {'C': 1.0, 'gamma': 0.1, 'tol': 0.001}
    """

    learners: tuple[Learner, ...]
    name: str = "cash"

    def __post_init__(self) -> None:
        check_settings(self)
        for one in self.learners:
            if not isinstance(one, Learner):
                raise InputError(f"learners must be fedhpo.learners.Learner objects, not {shown(one)}")
        names = [name for one in self.learners for name in _space(one).scope("client")]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"learners share the hyperparameter {twice[0]!r}: their names must differ")

    @property
    def space(self) -> Space:
        """All spaces in one, and the choice."""
        client = {
            name: replace(hyperparameter, when={"model.algorithm": one.name})
            for one in self.learners
            for name, hyperparameter in _space(one).scope("client").items()
        }
        return Space(client=client, model={"algorithm": Choice([one.name for one in self.learners])})

    def build(self, config: Config, seed: int) -> Any:
        """The estimator of the algorithm that the config names."""
        known = {one.name: one for one in self.learners}
        name = config.model.get("algorithm")
        if name not in known:
            raise unknown_name("algorithm", name, known)
        own = {key: value for key, value in config.model.items() if key != "algorithm"}
        return known[name].build(Config(client=config.client, model=own), seed)

    def for_task(self, task: str) -> Algorithms:
        """The learners for classes or for numbers."""
        return replace(self, learners=tuple(one.for_task(task) for one in self.learners))

    def unscaled(self) -> Algorithms:
        """The same on features as they come."""
        return replace(self, learners=tuple(one.unscaled() for one in self.learners))

    @property
    def scale(self) -> bool:
        """Whether one of them scales."""
        return any(one.scale for one in self.learners)

    @property
    def takes_missing(self) -> bool:
        """Whether all of them take features with NaN."""
        return all(one.takes_missing for one in self.learners)

    def check(self, names: Iterable[str]) -> None:
        """Refuse names that no estimator takes."""
        known = {"algorithm", *(name for one in self.learners for name in one.arguments or ())}
        for name in names:
            if name not in known and all(one.arguments is not None for one in self.learners):
                raise unknown_name(f"hyperparameter of {self.name}", name, known)


def _space(learner: Learner) -> Space:
    if learner.space is None:
        raise InputError(f"learner {learner.name!r} has no space of its own")
    return learner.space
