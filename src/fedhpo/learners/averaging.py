"""An MLP of scikit-learn whose weights can be averaged: trained from given weights, a few epochs at a time.

Federated averaging (McMahan et al., 2017). Parties have the same first weights, train them on their own rows
for `epochs`, and the mean of what they send is where they go on. Optimiser state stays with nobody: every
exchange begins with a new one. `early_stopping` is left out, as no party alone can say when to stop.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.space.config import Config

#: What studies call this way of training.
AVERAGING = "averaging"
#: How often weights are exchanged in one federated training.
EXCHANGES = 10

Arrays = dict[str, NDArray[np.float32]]


def can_average(learner: Learner | Algorithms) -> bool:
    """Whether it is a multi-layered perceptron of scikit-learn.

    >>> from fedhpo.learners import MLP, SVM
    >>> can_average(MLP), can_average(SVM)
    (True, False)
    """
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    if isinstance(learner, Algorithms):
        return False
    kind = learner.load()
    return isinstance(kind, type) and issubclass(kind, MLPClassifier | MLPRegressor)


def epochs_of(learner: Learner, config: Config) -> int:
    """Epochs between two exchanges: `max_iter` in all."""
    return -(-int(_built(learner, config, 0).max_iter) // EXCHANGES)


def first_arrays(learner: Learner, config: Config, features: int, classes: int | None, seed: int) -> Arrays:
    """Weights before training, which a seed determines.

    >>> from fedhpo.learners import MLP
    >>> arrays = first_arrays(MLP, Config(client={"hidden_layer_sizes": 5}), features=4, classes=3, seed=1)
    >>> {name: array.shape for name, array in arrays.items()}
    {'coef-0': (4, 5), 'intercept-0': (5,), 'coef-1': (5, 3), 'intercept-1': (3,)}
    """
    return _arrays(_begun(learner, config, features, classes, seed))


def with_arrays(
    learner: Learner, config: Config, arrays: Mapping[str, NDArray[Any]], classes: int | None, seed: int = 0
) -> Any:
    """The estimator that has these weights."""
    made = _begun(learner, config, len(arrays["coef-0"]), classes, seed)
    for name, values in (("coef", made.coefs_), ("intercept", made.intercepts_)):
        for layer, own in enumerate(values):
            own[...] = arrays[f"{name}-{layer}"]
    return made


def trained_arrays(
    learner: Learner,
    config: Config,
    arrays: Mapping[str, NDArray[Any]],
    x: NDArray[Any],
    y: NDArray[Any],
    classes: int | None,
    seed: int,
) -> Arrays:
    """The weights after the epochs of one exchange on these rows."""
    made = with_arrays(learner, config, arrays, classes, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an optimiser that would like to go on
        for _ in range(epochs_of(learner, config)):
            made.partial_fit(x, y)
    return _arrays(made)


def _built(learner: Learner, config: Config, seed: int) -> Any:
    made = learner.unscaled().build(config, seed)
    if made.solver == "lbfgs":
        raise InputError(f"{learner.name}: solver = 'lbfgs' cannot be averaged: use 'adam' or 'sgd'")
    return made.set_params(early_stopping=False)


def _begun(learner: Learner, config: Config, features: int, classes: int | None, seed: int) -> Any:
    """An estimator whose layers exist; what it learned from a row of zeros is of no account."""
    made = _built(learner, config, seed)
    none = np.zeros((1, features), np.float32)
    if classes is None:
        made.partial_fit(none, np.zeros(1))
    else:
        made.partial_fit(none, np.zeros(1, int), classes=np.arange(classes))
    del made._optimizer  # a new one for the weights that come
    return made


def _arrays(made: Any) -> Arrays:
    pairs = zip(made.coefs_, made.intercepts_, strict=True)
    return {
        f"{name}-{layer}": np.array(values, np.float32)
        for layer, both in enumerate(pairs)
        for name, values in zip(("coef", "intercept"), both, strict=True)
    }
