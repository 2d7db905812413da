"""XGBoost with the hyperparameters of scikit-learn's histogram-based gradient boosting.

| HGB | XGBoost |
| --- | --- |
| `max_iter` | rounds of boosting |
| `learning_rate` | `eta` |
| `l2_regularization` | `lambda` |
| `min_samples_leaf` m | `min_child_weight` = m/4 (two classes), m/2 (more) |
| `max_leaf_nodes` 31, no `max_depth` | `grow_policy` "lossguide", `max_leaves` 31, `max_depth` 0 |
| `max_bins` 255 | `max_bin` 256 |

`min_samples_leaf` has no twin: `min_child_weight` bounds the sum of a leaf's second derivatives, not its
rows. A row's is p(1 - p), at most 1/4 (XGBoost doubles it for more than two classes: at most 1/2), so a leaf
under this mapping has at least m rows, as in HGB; of rows that the model is sure of it must have more.
HGB's early stopping (on from 10,001 rows) has no part in it either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from fedhpo.core.errors import MissingExtraError

Array = NDArray[Any]


class BoostedTrees(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """XGBoost's histogram trees, one thread; see the module's docstring for the hyperparameters.

    >>> x, y = np.arange(40.0).reshape(-1, 1), (np.arange(40) > 19).astype(int)
    >>> BoostedTrees(max_iter=5, learning_rate=0.5, min_samples_leaf=4).fit(x, y).score(x, y)
    1.0
    """

    def __init__(
        self,
        max_iter: int = 100,
        learning_rate: float = 0.1,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        max_leaf_nodes: int = 31,
        random_state: int = 0,
    ) -> None:
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_leaf_nodes = max_leaf_nodes
        self.random_state = random_state

    def parameters(self, classes: int) -> dict[str, Any]:
        """What XGBoost calls all this."""
        several = {"objective": "multi:softprob", "num_class": classes}
        return {
            "tree_method": "hist",
            "max_bin": 256,
            "grow_policy": "lossguide",
            "max_leaves": self.max_leaf_nodes,
            "max_depth": 0,
            "eta": self.learning_rate,
            "lambda": self.l2_regularization,
            "min_child_weight": self.min_samples_leaf / (4 if classes <= 2 else 2),
            "seed": self.random_state,
            "nthread": 1,
            "verbosity": 0,
            **({"objective": "binary:logistic"} if classes <= 2 else several),
        }

    def fit(self, x: Array, y: Array, classes: int | None = None) -> BoostedTrees:
        """Train on labels 0, 1, ...; `classes` says how many there are, where these rows lack the last."""
        xgboost = import_xgboost()
        classes = int(y.max()) + 1 if classes is None else classes
        trained = xgboost.train(self.parameters(classes), xgboost.DMatrix(x, y, nthread=1), self.max_iter)
        return self.adopt(trained, classes)

    def adopt(self, booster: Any, classes: int) -> BoostedTrees:
        """Take a booster that was trained elsewhere: an object, or the bytes of its `save_raw`."""
        if isinstance(booster, bytes | bytearray):
            raw, booster = booster, import_xgboost().Booster({"nthread": 1})
            booster.load_model(bytearray(raw))
        self.booster_ = booster
        self.classes_ = np.arange(max(classes, 2))
        return self

    def __sklearn_tags__(self) -> Any:
        """A missing value (NaN) goes to the side of a split that suits it."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def predict_proba(self, x: Array) -> Array:
        """The probability of each class."""
        found: Array = self.booster_.predict(import_xgboost().DMatrix(x, nthread=1))
        return np.column_stack([1 - found, found]) if found.ndim == 1 else found

    def predict(self, x: Array) -> Array:
        """The likeliest class."""
        likeliest: Array = self.classes_[np.argmax(self.predict_proba(x), axis=1)]
        return likeliest


def import_xgboost() -> Any:
    """The xgboost module, or an error that names the extra to install."""
    try:
        import xgboost
    except ImportError:
        raise MissingExtraError("xgboost", "tabular") from None
    return xgboost
