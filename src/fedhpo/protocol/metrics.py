"""Metrics that a client computes from its model's outputs and its targets, beside loss and accuracy.

`outputs` are the probabilities of the classes, one row a sample, or for regression the predicted numbers.
What is no mean over samples (AUROC, F1) is computed at each client, and then averaged over clients like any
other score. A client where it is not defined, as AUROC where all targets are of one class, does not count.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import shown

Array = NDArray[Any]
Function = Callable[[Array, Array], Any]

#: What every federation scores; other metrics have to be asked for.
BASE = ("accuracy", "error", "loss")


@dataclass(frozen=True)
class Metric:
    """A metric of the user's own: `function(outputs, targets)` gives a number, or one for each sample.

    A `pooled` one is computed once over the rows of all clients that are asked, in a simulation: each
    client's entry is then the metric of all rows.

    >>> share = Metric("positives", lambda outputs, targets: outputs[:, 1] > 0.5, maximise=True)
    >>> share.value(np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([1, 0]))
    0.5
    """

    name: str
    function: Function
    maximise: bool
    pooled: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"name must be a string, not {shown(self.name)}")
        if not callable(self.function):
            raise InputError(f"function must take outputs and targets, found {shown(self.function)}")
        if not isinstance(self.maximise, bool):
            raise InputError(f"maximise must be True or False, not {shown(self.maximise)}")
        if not isinstance(self.pooled, bool):
            raise InputError(f"pooled must be True or False, not {shown(self.pooled)}")

    def value(self, outputs: Array, targets: Array) -> float:
        """The metric over a client's samples; NaN without any, or where it is not defined for them."""
        if not len(targets):
            return float("nan")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes that these rows lack
            found = np.asarray(self.function(outputs, targets), np.float64)
        if found.ndim and found.shape != (len(targets),):
            raise InputError(
                f"metric {self.name!r} must give a number, or one for each of {len(targets)} samples, found "
                f"an array of shape {found.shape}"
            )
        return float(found.mean())


def at_clients(metric: Metric, parts: Sequence[tuple[Array, Array]]) -> NDArray[np.float64]:
    """A metric at each client, from its outputs and targets; a pooled one is the same at all that have rows.

    >>> half = Metric("mean", lambda outputs, targets: outputs, maximise=True, pooled=True)
    >>> at_clients(half, [(np.ones(1), np.ones(1)), (np.zeros(3), np.ones(3)), (np.ones(0), np.ones(0))])
    array([0.25, 0.25,  nan])
    """
    if not metric.pooled:
        return np.array([metric.value(*part) for part in parts])
    known = [part for part in parts if len(part[1])]
    if not known:
        return np.full(len(parts), np.nan)
    outputs, targets = (np.concatenate(column) for column in zip(*known, strict=True))
    value = metric.value(outputs, targets)
    return np.array([value if len(part[1]) else np.nan for part in parts])


def _auroc(outputs: Array, targets: Array) -> float:
    """The area under the ROC curve of class 1; of several classes the mean over those that occur."""
    from sklearn.metrics import roc_auc_score

    present = np.unique(targets)
    if len(present) < 2:
        return float("nan")
    if outputs.shape[1] == 2:
        return float(roc_auc_score(targets, outputs[:, 1]))
    return float(np.mean([roc_auc_score(targets == one, outputs[:, one]) for one in present]))


def _average_precision(outputs: Array, targets: Array) -> float:
    from sklearn.metrics import average_precision_score

    present = np.unique(targets)
    if len(present) < 2:
        return float("nan")
    if outputs.shape[1] == 2:
        return float(average_precision_score(targets, outputs[:, 1]))
    return float(np.mean([average_precision_score(targets == one, outputs[:, one]) for one in present]))


def _f1(outputs: Array, targets: Array) -> float:
    """F1 of class 1; not defined where it neither occurs nor is told."""
    if outputs.shape[1] != 2:
        raise InputError(f"f1 is for two classes, found {outputs.shape[1]}: use 'f1_macro'")
    told = outputs.argmax(axis=1)
    hits = int(((told == 1) & (targets == 1)).sum())
    both = int((told == 1).sum() + (targets == 1).sum())
    return 2 * hits / both if both else float("nan")


def _f1_macro(outputs: Array, targets: Array) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(targets, outputs.argmax(axis=1), average="macro", zero_division=0))


def _balanced_accuracy(outputs: Array, targets: Array) -> float:
    right = outputs.argmax(axis=1) == targets
    return float(np.mean([right[targets == one].mean() for one in np.unique(targets)]))


def _mae(outputs: Array, targets: Array) -> Array:
    return np.asarray(np.abs(outputs - targets))


def _rmse(outputs: Array, targets: Array) -> float:
    return float(np.sqrt(((outputs - targets) ** 2).mean()))


def _r2(outputs: Array, targets: Array) -> float:
    spread = float(((targets - targets.mean()) ** 2).sum())
    return 1 - float(((outputs - targets) ** 2).sum()) / spread if spread else float("nan")


def _perplexity(outputs: Array, targets: Array) -> float:
    """The exponential of the mean cross-entropy."""
    told = np.maximum(outputs[np.arange(len(targets)), targets], np.finfo(np.float64).tiny)
    return float(np.exp(-np.log(told).mean()))


@dataclass(frozen=True)
class _TopK:
    """The share of samples whose class is among the `k` likeliest."""

    k: int

    def __call__(self, outputs: Array, targets: Array) -> Array:
        own = outputs[np.arange(len(targets)), targets]
        return np.asarray((outputs > own[:, None]).sum(axis=1) < self.k)


_CLASSES = {
    "auroc": Metric("auroc", _auroc, True),
    "average_precision": Metric("average_precision", _average_precision, True),
    "balanced_accuracy": Metric("balanced_accuracy", _balanced_accuracy, True),
    "f1": Metric("f1", _f1, True),
    "f1_macro": Metric("f1_macro", _f1_macro, True),
    "perplexity": Metric("perplexity", _perplexity, False),
}
_NUMBERS = {
    "mae": Metric("mae", _mae, False),
    "rmse": Metric("rmse", _rmse, False),
    "r2": Metric("r2", _r2, True),
}
#: Our metrics by name, besides `top_K_accuracy` with any K.
NAMED = _CLASSES | _NUMBERS
_TOP = re.compile(r"top_([1-9]\d{0,5})_accuracy")


@dataclass(frozen=True)
class _Scorer:
    """A scorer of scikit-learn, shown an estimator that tells the outputs."""

    scorer: Any

    def __call__(self, outputs: Array, targets: Array) -> float:
        from fedhpo.protocol.told import told_by

        return float(self.scorer(told_by(outputs), np.arange(len(targets)), targets))


def metric_of(given: Any) -> Metric:
    """The metric meant by a name of ours or of scikit-learn's scorers, a scorer, or a `Metric`.

    >>> metric_of("top_3_accuracy").value(np.array([[0.4, 0.3, 0.2, 0.1]]), np.array([2]))
    1.0
    >>> metric_of("auroc").value(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 0]))
    1.0
    """
    if isinstance(given, Metric):
        return given
    if not isinstance(given, str):
        if hasattr(given, "_score_func"):  # what sklearn.metrics.make_scorer gives
            name = getattr(given._score_func, "__name__", "scorer")
            return Metric(name, _Scorer(given), True)
        hint = "for a function write fedhpo.Metric('name', function, maximise=True)"
        raise InputError(f"a metric must be a name, a scorer or a fedhpo.Metric, not {shown(given)}: {hint}")
    if given in NAMED:
        return NAMED[given]
    if found := _TOP.fullmatch(given):
        return Metric(given, _TopK(int(found[1])), True)
    from sklearn.metrics import get_scorer, get_scorer_names

    if given in get_scorer_names():
        return Metric(given, _Scorer(get_scorer(given)), True)
    raise unknown_name("metric", given, [*BASE, *NAMED, "top_3_accuracy"])


def by_name(metric: Metric) -> bool:
    """Whether a name says all of a metric, so that a client elsewhere knows it too."""
    if metric.name in NAMED or _TOP.fullmatch(metric.name):
        return metric == metric_of(metric.name)
    if not isinstance(metric.function, _Scorer):
        return False
    from sklearn.metrics import get_scorer_names

    return metric.name in get_scorer_names()


def direction_of(name: str) -> bool | None:
    """Whether more of a named metric is better; None where the name is nobody's."""
    if name in BASE:
        return name == "accuracy"
    if name in NAMED:
        return NAMED[name].maximise
    try:
        return metric_of(name).maximise
    except InputError:
        return None


def check_metrics(metrics: Iterable[Metric], task: str | None) -> None:
    """Refuse metrics of classes for numbers, and the other way round."""
    for metric in metrics:
        classes = metric.name in _CLASSES or _TOP.fullmatch(metric.name)
        if task == "regression" and classes and metric == metric_of(metric.name):
            raise InputError(
                f"metric {metric.name!r} is for classes, but targets are numbers: use 'mae', 'rmse' or 'r2'"
            )
        if task not in (None, "regression") and metric.name in _NUMBERS and metric == _NUMBERS[metric.name]:
            raise InputError(f"metric {metric.name!r} is for regression, targets are classes: use 'auroc'")
        if task == "language":
            raise InputError(f"metric {metric.name!r}: language models have 'accuracy', 'error' and 'loss'")


def distinct(given: Sequence[Any]) -> tuple[Metric, ...]:
    """The metrics meant, without those that every federation scores; no two of one name."""
    found: dict[str, Metric] = {}
    for one in given:
        if isinstance(one, str) and one in BASE:
            continue
        metric = metric_of(one)
        if metric.name in BASE or found.setdefault(metric.name, metric) != metric:
            raise InputError(f"two metrics are called {metric.name!r}: give them names of their own")
    return tuple(found.values())
