"""How sure a mean over replicates is, when configs and clients are themselves a sample.

Each replicate keeps a share of the configs and clients (Shao and Wu, 1989, the delete-d jackknife). Seeds on
one sample differ by luck alone; what is left of the variance between samples is theirs, and counts
kept / (1 - kept) times: a sample shares most of its members with the others, so it differs from them by
less than a new table would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from fedhpo.protocol.federation import Floats
from fedhpo.research.bench.subtable import KEPT


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error, and the samples that it comes from."""

    mean: float
    standard_error: float
    samples: int

    def interval(self, together: int = 1, level: float = 0.95) -> tuple[float, float]:
        """An interval that holds, with `together - 1` others, at this level (Bonferroni, Student's t).

        >>> low, high = Estimate(1.0, 0.5, 10).interval()
        >>> round(low, 3), round(high, 3)
        (-0.131, 2.131)
        """
        if self.samples < 2:
            return -math.inf, math.inf
        wide = float(student.ppf(1 - (1 - level) / (2 * together), self.samples - 1)) * self.standard_error
        return self.mean - wide, self.mean + wide

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def jackknife(values: Floats, kept: float = KEPT) -> Estimate:
    """The mean of `values[sample, seed]`, with its standard error.

    >>> jackknife(np.array([[1.0, 3.0], [5.0, 7.0]]))  # means 2 and 6; luck: variance 2, of a mean 1
    Estimate(mean=4.0, standard_error=4.636809247747852, samples=2)
    """
    samples, seeds = values.shape
    means = values.mean(axis=1)
    luck = float(values.var(axis=1, ddof=1).mean()) / seeds if seeds > 1 else 0.0
    between = float(means.var(ddof=1)) if samples > 1 else math.nan
    variance = kept / (1 - kept) * max(0.0, between - luck) + luck / samples
    return Estimate(float(values.mean()), math.sqrt(variance), samples)


def together(estimates: Sequence[Estimate]) -> Estimate:
    """The mean over tables, which are taken as they are: their errors are independent.

    >>> together([Estimate(1.0, 3.0, 10), Estimate(3.0, 4.0, 10)])
    Estimate(mean=2.0, standard_error=2.5, samples=10)
    """
    count = len(estimates)
    return Estimate(
        float(np.mean([one.mean for one in estimates])),
        math.hypot(*(one.standard_error for one in estimates)) / count,
        min(one.samples for one in estimates),
    )
