"""Scores of each member's hyperparameters from a round's report; less is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedhpo.policies.losses import diverged
from fedhpo.protocol.federation import Floats, RoundReport

Metric = Literal["loss", "error"]
METRICS: tuple[str, ...] = get_args(Metric)


@dataclass(frozen=True)
class MemberScores:
    """Scores of those members that count, by their position in the cohort.

    `size` is how many validation rows a member has; `pretrain` the mean score before training.
    """

    members: NDArray[np.intp]
    values: Floats
    size: Floats
    pretrain: float

    @property
    def mean(self) -> float:
        """The mean by size."""
        return float(np.average(self.values, weights=self.size))


def member_scores(
    report: RoundReport, metric: Metric, difference: bool, clip: float | None
) -> MemberScores | None:
    """The scores in a report; None if nobody has one.

    A member counts if its reply was used, or was refused because training had diverged. Losses above
    `clip` count as `clip`. A loss that is not finite is the worst: it counts as `clip`, or without one as
    the largest finite loss, before or after training, in the report.
    """
    if metric == "loss":
        before, after = report.loss_before, report.loss_after
    else:
        before, after = 1 - report.accuracy_before, 1 - report.accuracy_after
    known = np.concatenate([before[np.isfinite(before)], after[np.isfinite(after)]])
    # Who diverged says nothing of its size: it counts like the others on average.
    heard = report.ok & (report.validation_size > 0)
    if not heard.any() or not len(known):
        return None
    worst = 1.0 if metric == "error" else known.max() if clip is None else clip
    size = np.where(heard, report.validation_size, report.validation_size[heard].mean())
    mean_before = np.average(_bounded(before[heard], worst), weights=size[heard])
    start = np.where(np.isfinite(before), _bounded(before, worst), mean_before)
    members = np.flatnonzero(heard | diverged(report))
    values = _bounded(after, worst) - (start if difference else 0.0)
    pretrain = 0.0 if difference else float(mean_before)
    return MemberScores(members, values[members], size[members].astype(np.float64), pretrain)


def _bounded(values: Floats, worst: float) -> Floats:
    return np.minimum(np.where(np.isfinite(values), values, worst), worst)
