"""The loss of a config at a party: 1 minus the score over stratified folds of the party's own rows."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.space.config import Config

Array = NDArray[Any]
Rows = NDArray[np.int64]

BALANCED = "balanced_accuracy"
#: Folds inside a party, as in FLoRA.
FOLDS = 10


class Builds(Protocol):
    """As much of a learner as scoring needs."""

    def build(self, config: Config, seed: int) -> Any:
        """An estimator, not fitted yet."""


def scorer(name: str) -> Any:
    """A scorer of scikit-learn by its name, of which more is better."""
    from sklearn.metrics import get_scorer, get_scorer_names

    if name not in get_scorer_names():
        raise unknown_name("scoring", name, get_scorer_names())
    return get_scorer(name)


def number_of_folds(y: Array, folds: int = FOLDS) -> int:
    """As many as wanted, but no more than the rarest class has rows, and at least 2.

    >>> number_of_folds(np.array([0, 0, 0, 0, 1, 1, 1])), number_of_folds(np.zeros(50) + 0.5)
    (3, 10)
    """
    if y.dtype.kind == "f":
        return max(2, min(folds, len(y)))
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2:
        raise InputError(f"all {len(y)} training rows have the same label: at least two classes are needed")
    return max(2, min(folds, int(counts.min())))


def fold_rows(y: Array, folds: int, fold: int, seed: int) -> tuple[Rows, Rows]:
    """The rows to fit on and the rows held out: stratified by class where `y` holds classes."""
    from sklearn.model_selection import KFold, StratifiedKFold

    kind = KFold if y.dtype.kind == "f" else StratifiedKFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class with a single row
        parts = list(kind(folds, shuffle=True, random_state=seed).split(np.empty((len(y), 0)), y))
    kept, held = parts[fold]
    return kept, held


def fold_score(
    learner: Builds, config: Config, x: Array, y: Array, folds: int, fold: int, scoring: str, seed: int
) -> float:
    """The score on one fold of an estimator fitted on the others; `seed` (32 bits) deals the folds too."""
    kept, held = fold_rows(y, folds, fold, seed)
    return score_of(fitted(learner, config, x[kept], y[kept], seed), x[held], y[held], scoring)


def fitted(learner: Builds, config: Config, x: Array, y: Array, seed: int) -> Any:
    """An estimator fitted on these rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an optimiser that would like to go on
        return learner.build(config, seed).fit(x, y)


def score_of(estimator: Any, x: Array, y: Array, scoring: str) -> float:
    """The estimator's score on these rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that these rows lack
        return float(scorer(scoring)(estimator, x, y))


def outputs_of(estimator: Any, x: Array, classes: int | None) -> Array:
    """What metrics are computed from: the probabilities of all classes, or what ranks them; or numbers."""
    if classes is None:
        return np.asarray(estimator.predict(x), np.float64)
    if hasattr(estimator, "predict_proba"):
        found = np.asarray(estimator.predict_proba(x), np.float64)
    elif hasattr(estimator, "decision_function"):
        found = np.asarray(estimator.decision_function(x), np.float64)
        found = np.column_stack([-found, found]) if found.ndim == 1 else found
    else:
        told = np.asarray(estimator.predict(x), int)
        return np.asarray(np.eye(max(classes, int(told.max(initial=0)) + 1))[told])
    known = np.asarray(estimator.classes_, int)
    whole = np.full((len(x), max(classes, int(known.max()) + 1)), min(0.0, float(found.min(initial=0.0))))
    whole[:, known] = found
    return whole


def cross_validated_loss(
    learner: Builds,
    config: Config,
    x: Array,
    y: Array,
    *,
    folds: int = FOLDS,
    scoring: str = BALANCED,
    seed: int = 0,
) -> float:
    """1 minus the mean score over the folds.

    >>> from fedhpo.learners import HGB
    >>> x, y = np.arange(60.0).reshape(-1, 1), (np.arange(60) % 20 > 9).astype(int)
    >>> config = HGB.space.complete({"client": {"min_samples_leaf": 2}})
    >>> cross_validated_loss(HGB, config, x, y, folds=3) < 0.5
    True
    """
    count = number_of_folds(y, folds)
    scores = [fold_score(learner, config, x, y, count, fold, scoring, seed) for fold in range(count)]
    return 1 - float(np.mean(scores))
