"""What a client may say of losses, scores and metrics: bounds that no arithmetic of a method breaks at.

A loss may be large, as that of a model on its way to diverge, but no larger than 32-bit numbers can be. An
infinite loss says that the model has diverged. NaN stands for a score that there is not.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.protocol.federation import Floats, RoundReport, Scores, Status
from fedhpo.protocol.reasons import Reason, Why

#: The largest loss or metric that counts: what a 32-bit number can hold.
MOST = float(np.finfo(np.float32).max)
_SHARE, _POSITIVE = (0.0, 1.0), (0.0, MOST)
#: Where metrics of a name lie; any other metric lies between minus and plus `MOST`.
_RANGES = {
    **dict.fromkeys(("accuracy", "error", "auroc", "average_precision", "balanced_accuracy", "f1"), _SHARE),
    **dict.fromkeys(("f1_macro", "roc_auc", "average_precision", "recall_macro", "precision_macro"), _SHARE),
    **dict.fromkeys(("mae", "rmse", "perplexity"), _POSITIVE),
    "r2": (-MOST, 1.0),
}


def range_of(name: str) -> tuple[float, float]:
    """The least and the largest value of a metric.

    >>> range_of("auroc"), range_of("top_3_accuracy")
    ((0.0, 1.0), (0.0, 1.0))
    """
    known = _SHARE if name.startswith("top_") and name.endswith("_accuracy") else (-MOST, MOST)
    return _RANGES.get(name, known)


def trouble_with(name: str, value: float, least: float, most: float) -> Reason | None:
    """Why a score cannot be used; None if it can, or if there is none (NaN).

    >>> print(trouble_with("loss_after", 1e308, 0.0, MOST))
    loss_after is 1e+308, expected a number in 0..3.40282e+38
    >>> trouble_with("loss_after", float("inf"), 0.0, MOST).why.value
    'diverged'
    """
    if math.isnan(value) or least <= value <= most:
        return None
    if value == math.inf and most == MOST:
        return Reason(Why.DIVERGED, f"{name} is infinite: the model has diverged")
    return Reason(Why.REJECTED, f"{name} is {value:.6g}, expected a number in {least:.6g}..{most:.6g}")


#: Why a reply to an evaluation has failed that holds no score at all.
NO_SCORE = Reason(Why.DIVERGED, "none of its scores is a number")


def impossible(values: Floats) -> NDArray[np.bool_]:
    """Which of a simulation's own scores no method may see; plus infinity and NaN are a model that diverged.

    >>> impossible(np.array([1e38, np.inf, np.nan, -np.inf, 1e39, -1e300])).tolist()
    [False, False, False, True, True, True]
    """
    with np.errstate(invalid="ignore"):
        return np.asarray((np.isfinite(values) & (np.abs(values) > MOST)) | (values == -math.inf))


def checked_scores(scores: Scores, *, told: bool = False) -> Scores:
    """Scores whose impossible ones have failed, with the reason; as they are where there are none.

    Those that clients `told` are read as a server reads replies.
    """
    columns: dict[str, Floats] = {"loss": scores.loss, "accuracy": scores.accuracy, **scores.metrics}
    failed = _failed(columns, scores.status, told)
    if not failed:
        return scores
    kept = _without(columns, failed, scores.status)
    loss, accuracy = kept.pop("loss"), kept.pop("accuracy")
    return replace(
        scores,
        status=_status(scores.status, failed),
        loss=loss,
        accuracy=accuracy,
        metrics=kept,
        reasons=dict(sorted(({**scores.reasons} | failed).items())),
    )


def checked_report(report: RoundReport) -> RoundReport:
    """The same of a round's report: for records of versions that did not check what clients say."""
    names = ("loss_before", "loss_after", "accuracy_before", "accuracy_after")
    failed = _failed({name: getattr(report, name) for name in names}, report.status, told=False)
    if not failed:
        return report
    kept: dict[str, Any] = _without({name: getattr(report, name) for name in names}, failed, report.status)
    return replace(
        report,
        status=_status(report.status, failed),
        reasons=dict(sorted(({**report.reasons} | failed).items())),
        **kept,
    )


def _failed(columns: dict[str, Floats], status: NDArray[np.int8], told: bool) -> dict[int, Reason]:
    found: dict[int, Reason] = {}
    # Nearly always, of all at once: records are read by the hundred thousand.
    if not told and not impossible(np.concatenate(list(columns.values()))).any():
        return found
    for name, values in columns.items():
        least, most = range_of(name.partition("_")[0]) if told else (-MOST, MOST)
        suspects = ~((values >= least) & (values <= most)) if told else impossible(values)
        for place in np.flatnonzero(suspects & (status == Status.OK)).tolist():
            reason = trouble_with(name, float(values[place]), least, most)
            if reason is not None:
                found.setdefault(place, reason)
    if told:
        empty = np.logical_and.reduce([np.isnan(values) for values in columns.values()])
        for place in np.flatnonzero(empty & (status == Status.OK)).tolist():
            found.setdefault(place, NO_SCORE)
    return found


def _without(
    columns: dict[str, Floats], failed: dict[int, Reason], status: NDArray[np.int8]
) -> dict[str, Floats]:
    lost = np.isin(np.arange(len(status)), list(failed))
    return {name: np.where(lost, np.nan, values) for name, values in columns.items()}


def _status(status: NDArray[np.int8], failed: dict[int, Reason]) -> NDArray[np.int8]:
    found = status.copy()
    found[list(failed)] = Status.FAILED
    return found
