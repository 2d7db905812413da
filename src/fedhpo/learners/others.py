"""Boosted trees of other packages, where they are installed, under their own names of hyperparameters."""

from __future__ import annotations

from fedhpo.learners.learner import Learner
from fedhpo.space import Space

#: LightGBM, one thread.
LIGHTGBM = Learner(
    "lightgbm",
    "lightgbm:LGBMClassifier",
    Space.suggested("lightgbm"),
    fixed={"n_jobs": 1, "verbosity": -1, "deterministic": True, "force_row_wise": True},
    regressor="lightgbm:LGBMRegressor",
    extra="lightgbm",
)

#: CatBoost, one thread; it writes no files.
CATBOOST = Learner(
    "catboost",
    "catboost:CatBoostClassifier",
    Space.suggested("catboost"),
    fixed={"thread_count": 1, "verbose": 0, "allow_writing_files": False},
    regressor="catboost:CatBoostRegressor",
    extra="catboost",
)
