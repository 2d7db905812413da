"""Learners for parties with tabular data: scikit-learn's estimators and XGBoost."""

from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.named import LEARNERS, learner_of
from fedhpo.learners.others import CATBOOST, LIGHTGBM
from fedhpo.learners.paper import CASH, HGB, MLP, SVM, XGBOOST
from fedhpo.learners.scoring import cross_validated_loss

__all__ = [
    "CASH",
    "CATBOOST",
    "HGB",
    "LEARNERS",
    "LIGHTGBM",
    "MLP",
    "SVM",
    "XGBOOST",
    "Algorithms",
    "Learner",
    "cross_validated_loss",
    "learner_of",
]
