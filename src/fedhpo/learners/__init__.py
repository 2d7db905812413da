"""Learners for parties with tabular data: scikit-learn's estimators and XGBoost."""

from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.paper import CASH, HGB, LEARNERS, MLP, SVM, XGBOOST, learner_of
from fedhpo.learners.scoring import cross_validated_loss

__all__ = [
    "CASH",
    "HGB",
    "LEARNERS",
    "MLP",
    "SVM",
    "XGBOOST",
    "Algorithms",
    "Learner",
    "cross_validated_loss",
    "learner_of",
]
