"""What a party can train: an estimator with scikit-learn's methods, its space, and what stays fixed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings, shown
from fedhpo.space import Choice, Space
from fedhpo.space.config import Config, Frozen


@dataclass(frozen=True)
class Learner:
    """An estimator by its import path; its hyperparameters are those of the scope `client`.

    `space` is the paper's, or None where users bring their own. `fixed` are arguments that no config
    changes. With `scale` features are brought to 0..1 by the rows that the estimator is fitted on, those
    of a fold's training part only. `default` is the paper's baseline, which may lie outside the space.

    >>> forest = Learner("forest", "sklearn.ensemble:RandomForestClassifier", fixed={"n_estimators": 5})
    >>> forest.build(Config(client={"max_depth": 2}), seed=0)
    RandomForestClassifier(max_depth=2, n_estimators=5, random_state=0)
    """

    name: str
    estimator: str
    space: Space | None = None
    fixed: Mapping[str, Any] = field(default_factory=Frozen)
    scale: bool = False
    default: Mapping[str, Any] = field(default_factory=Frozen)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.space is not None and not isinstance(self.space, Space):
            raise InputError(f"space must be a fedhpo.Space or None, not {shown(self.space)}")
        object.__setattr__(self, "fixed", Frozen(self.fixed))
        object.__setattr__(self, "default", Frozen(self.default))

    def build(self, config: Config, seed: int) -> Any:
        """The estimator, not fitted yet; `seed` is its `random_state` if it has one."""
        kind = self.load()
        arguments = {**self.fixed, **config.client, **config.model}
        try:
            made = kind(**arguments)
        except TypeError as error:
            raise InputError(f"{self.name}: {error}") from None
        if "random_state" in made.get_params():
            made.set_params(random_state=seed)
        if not self.scale:
            return made
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MinMaxScaler

        return make_pipeline(MinMaxScaler(), made)

    def load(self) -> Any:
        """The estimator's class."""
        module, _, name = self.estimator.partition(":")
        if not module or not name:
            raise InputError(f"estimator = {self.estimator!r}: must be 'package.module:Name'")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise InputError(f"estimator = {self.estimator!r}: cannot be imported: {error}") from None
        for method in ("fit", "predict", "get_params"):
            if not hasattr(found, method):
                raise InputError(
                    f"estimator = {self.estimator!r}: must have fit, predict and get_params, lacks {method}"
                )
        return found

    @property
    def arguments(self) -> list[str] | None:
        """The names of what the estimator takes; None where it takes any."""
        parameters = inspect.signature(self.load()).parameters.values()
        free = any(one.kind is one.VAR_KEYWORD for one in parameters)
        return None if free else [one.name for one in parameters]

    def check(self, names: Iterable[str]) -> None:
        """Refuse names that the estimator does not take."""
        known = self.arguments
        for name in names if known is not None else ():
            if name not in (known or ()):
                raise unknown_name(f"hyperparameter of {self.name}", name, known or ())


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
        from dataclasses import replace

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
