"""Members' scores brought into [0, 1], each by itself: what one client says changes no other's score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedhpo.methods.fedex.scores import Metric
from fedhpo.protocol.federation import Floats, RoundReport


@dataclass(frozen=True)
class Range:
    """Where scores lie: losses in [0, clip], errors in [0, 1], differences between minus and plus that.

    >>> Range("loss", clip=4.0, difference=True).value(0.25)
    -2.0
    """

    metric: Metric
    clip: float | None
    difference: bool

    @property
    def worst(self) -> float:
        """The largest score."""
        if self.metric == "error":
            return 1.0
        assert self.clip is not None
        return self.clip

    def value(self, unit: float) -> float:
        """The score that a number in [0, 1] stands for."""
        return self.worst * (2 * unit - 1) if self.difference else self.worst * unit

    def after(self, report: RoundReport) -> Floats:
        """Each member's score in [0, 1]; a loss that is not finite is the worst there is."""
        after, before = self._clipped(report, "after"), self._clipped(report, "before")
        if not self.difference:
            return after
        lost = ~np.isfinite(report.loss_after if self.metric == "loss" else report.accuracy_after)
        return np.where(lost, 1.0, (after - before + 1) / 2)

    def before(self, report: RoundReport) -> Floats:
        """Each member's score before training in [0, 1]."""
        return self._clipped(report, "before")

    def _clipped(self, report: RoundReport, when: str) -> Floats:
        if self.metric == "loss":
            values: Floats = getattr(report, f"loss_{when}") / self.worst
        else:
            values = 1 - getattr(report, f"accuracy_{when}")
        return np.clip(np.where(np.isfinite(values), values, 1.0), 0.0, 1.0)
