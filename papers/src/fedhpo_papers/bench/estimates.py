"""How sure a mean over seeds is, when the configs and clients of a table are themselves a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import t as student

from fedhpo.protocol.federation import Floats
from fedhpo_papers.jackknife import Jackknife, pooled


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error, and the parts of a table that it comes from."""

    mean: float
    standard_error: float
    parts: int

    def interval(self, together: int = 1, level: float = 0.95) -> tuple[float, float]:
        """An interval that holds, with `together - 1` others, at this level (Bonferroni, Student's t).

        >>> low, high = Estimate(1.0, 0.5, 10).interval()
        >>> round(low, 3), round(high, 3)
        (-0.131, 2.131)
        """
        if self.parts < 2:
            return -math.inf, math.inf
        wide = float(student.ppf(1 - (1 - level) / (2 * together), self.parts - 1)) * self.standard_error
        return self.mean - wide, self.mean + wide

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def estimate(values: Floats, knife: Jackknife) -> Estimate:
    """The mean of `values[part, seed]`, with the jackknife's standard error.

    Seeds on one part differ by luck alone, which is taken off what parts differ by, and added once.
    """
    parts, seeds = values.shape
    if parts < 2 or seeds < 2:
        return Estimate(float(values.mean()) if values.size else math.nan, math.nan, parts)
    luck = float(values.var(axis=1, ddof=1).mean()) / seeds
    error = replace(knife, parts=knife.parts[:parts]).errors(values.mean(axis=1), luck, luck / parts)
    return Estimate(float(values.mean()), float(error), parts)


def over_tables(estimates: Sequence[Estimate]) -> Estimate:
    """The mean over tables, which are taken as they are.

    >>> over_tables([Estimate(1.0, 3.0, 10), Estimate(3.0, 4.0, 10)])
    Estimate(mean=2.0, standard_error=2.5, parts=10)
    """
    return Estimate(
        float(np.mean([one.mean for one in estimates])),
        pooled([one.standard_error for one in estimates]),
        min(one.parts for one in estimates),
    )
