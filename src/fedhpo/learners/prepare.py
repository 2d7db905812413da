"""What is done to the parties' rows before a learner sees them: missing values, and one scale for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fedhpo.core.errors import unknown_name
from fedhpo.data import FederatedData
from fedhpo.data.columns import Preparation, described
from fedhpo.data.scaling import SCALES, moments
from fedhpo.learners.learner import Algorithms, Learner

#: The learner scales by the rows that it is fitted on, or not at all.
FITTED = "fitted"


@dataclass(frozen=True, eq=False)
class Prepared:
    """The data and the learner that go together, and how a new row is prepared."""

    data: FederatedData
    learner: Learner | Algorithms
    scaling: str
    fills: bool
    preparation: Preparation

    @classmethod
    def of(cls, data: FederatedData, learner: Learner | Algorithms, scaling: str | None) -> Prepared:
        """Prepare `data` for `learner`; see `fedhpo.LearnerFederation` for `scaling`."""
        if scaling is None:
            scaling = "minmax" if learner.scale and data.encoding is not None else FITTED
        if scaling not in (*SCALES, FITTED):
            raise unknown_name("scaling", scaling, (*SCALES, FITTED))
        learner = learner.for_task(data.task)
        fills = bool(data.fill is not None and not learner.takes_missing)
        shift = scale = None
        if scaling != FITTED:
            learner = learner.unscaled()
            shift, scale = moments(data.x, data.train).scaling(scaling)
        preparation = Preparation(data.fill if fills else None, shift, scale)
        return cls(replace(data, x=preparation(data.x)), learner, scaling, fills, preparation)

    def describe(self) -> dict[str, Any]:
        """For the result: only what was done."""
        found = described(self.data, fills=self.fills)
        if self.scaling != FITTED:
            found["scaling"] = f"{self.scaling}, by what all parties' training rows add up to"
        return found
