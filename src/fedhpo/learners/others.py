"""Boosted trees of other packages, where they are installed, under their own names of hyperparameters."""

from __future__ import annotations

from fedhpo.learners.learner import Learner
from fedhpo.space import Float, Int, Space

#: LightGBM, one thread.
LIGHTGBM = Learner(
    "lightgbm",
    "lightgbm:LGBMClassifier",
    Space(
        client={
            "n_estimators": Int(10, 200, default=100),
            "learning_rate": Float(1e-3, 1.0, log=True, default=0.1),
            "num_leaves": Int(4, 127, log=True, default=31),
            "min_child_samples": Int(1, 40, default=20),
            "reg_lambda": Float(1e-4, 10.0, log=True, default=1e-4),
        }
    ),
    fixed={"n_jobs": 1, "verbosity": -1, "deterministic": True, "force_row_wise": True},
    regressor="lightgbm:LGBMRegressor",
    extra="lightgbm",
)

#: CatBoost, one thread; it writes no files.
CATBOOST = Learner(
    "catboost",
    "catboost:CatBoostClassifier",
    Space(
        client={
            "iterations": Int(10, 200, default=100),
            "learning_rate": Float(1e-3, 1.0, log=True, default=0.1),
            "depth": Int(2, 8, default=6),
            "l2_leaf_reg": Float(0.1, 30.0, log=True, default=3.0),
        }
    ),
    fixed={"thread_count": 1, "verbose": 0, "allow_writing_files": False},
    regressor="catboost:CatBoostRegressor",
    extra="catboost",
)
