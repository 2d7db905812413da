"""FLoRA's learners, with the spaces, defaults and fixed values of its appendix D.2."""

from __future__ import annotations

from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.space import Space

_TREES_DEFAULT = {"max_iter": 100, "learning_rate": 0.1, "min_samples_leaf": 20, "l2_regularization": 0.0}

#: Histogram-based gradient boosted trees (D.2.1), on features as they are.
HGB = Learner(
    "hgb",
    "sklearn.ensemble:HistGradientBoostingClassifier",
    Space.suggested("hgb"),
    default=_TREES_DEFAULT,
    regressor="sklearn.ensemble:HistGradientBoostingRegressor",
)

#: Kernel SVM (D.2.2), on features scaled to 0..1.
SVM = Learner(
    "svm",
    "sklearn.svm:SVC",
    Space.suggested("svm"),
    fixed={"kernel": "rbf", "class_weight": "balanced"},
    scale=True,
    default={"C": 1.0, "gamma": 0.1, "tol": 1e-3},
)

#: Multi-layered perceptron (D.2.3), on features scaled to 0..1; the fixed values are Auto-sklearn's.
MLP = Learner(
    "mlp_sklearn",
    "sklearn.neural_network:MLPClassifier",
    Space.suggested("mlp_sklearn"),
    fixed={
        "solver": "adam",
        "activation": "relu",
        "early_stopping": True,
        "shuffle": True,
        "batch_size": "auto",
        "tol": 1e-4,
        "validation_fraction": 0.1,
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-8,
    },
    scale=True,
    default={"hidden_layer_sizes": 100, "alpha": 1e-4, "learning_rate_init": 1e-3},
)

#: XGBoost under HGB's names, see `fedhpo.learners.boosted`: the one that trains federated for real.
XGBOOST = Learner(
    "xgboost", "fedhpo.learners.boosted:BoostedTrees", Space.suggested("xgboost"), default=_TREES_DEFAULT
)

#: The algorithm as a hyperparameter.
CASH = Algorithms((HGB, SVM, MLP))
