"""Learners by name, by an estimator's import path, or the estimator itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.core.errors import unknown_name
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.others import CATBOOST, LIGHTGBM
from fedhpo.learners.paper import CASH, HGB, MLP, SVM, XGBOOST

LEARNERS: Mapping[str, Learner | Algorithms] = {
    one.name: one for one in (HGB, SVM, MLP, XGBOOST, CASH, LIGHTGBM, CATBOOST)
}


def learner_of(learner: Any) -> Learner | Algorithms:
    """The learner meant by a name, an estimator's import path, its class, or an estimator to begin from.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> [learner_of(one).name for one in ("sklearn.naive_bayes:GaussianNB", GaussianNB, GaussianNB())]
    ['GaussianNB', 'GaussianNB', 'GaussianNB']
    """
    if isinstance(learner, Learner | Algorithms):
        return learner
    if not isinstance(learner, str):
        kind = learner if isinstance(learner, type) else type(learner)
        own = Learner(kind.__name__, learner)
    elif ":" in learner:
        own = Learner(learner.partition(":")[2], learner)
    elif learner in LEARNERS:
        return LEARNERS[learner]
    else:
        raise unknown_name("learner", learner, LEARNERS)
    own.load()
    return own
