"""How sure a mean over seeds is, where seeds play on parts of a table; and one over tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from fedhpo.protocol.federation import Floats
from fedhpo_papers.jackknife import pooled


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
        if self.parts < 2 or math.isnan(self.standard_error):
            return -math.inf, math.inf
        wide = float(student.ppf(1 - (1 - level) / (2 * together), self.parts - 1)) * self.standard_error
        return self.mean - wide, self.mean + wide

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


#: Parts without which no error is stated: that of an error would be a quarter of it and more.
LEAST_PARTS = 32


def estimate(values: Floats) -> Estimate:
    """The mean of `values[part, seed]`, with the standard error of a bootstrap of whole parts.

    A part is drawn with all its seeds, so that nothing has to be subtracted; this is the limit of many draws.
    It is conditional on the table: other parts of the same configs and clients, not others of these.
    """
    parts, seeds = values.shape
    mean = float(values.mean()) if values.size else math.nan
    if parts < LEAST_PARTS or seeds < 2:
        return Estimate(mean, math.nan, parts)
    return Estimate(mean, float(values.mean(axis=1).std() / math.sqrt(parts - 1)), parts)


def by_table(values: Sequence[float]) -> Estimate:
    """The mean of one number of each table, with the table as unit: Student's t over tables.

    >>> by_table([1.0, 2.0, 3.0])
    Estimate(mean=2.0, standard_error=0.5773502691896258, parts=3)
    """
    found = np.asarray(values, np.float64)
    error = float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else math.nan
    return Estimate(float(found.mean()), error, len(found))


def sign_flip(values: Sequence[float]) -> float:
    """How often the mean of log ratios with random signs is at most theirs: one-sided, over all sign flips.

    >>> sign_flip([-1.0, -2.0, -3.0])
    0.125
    """
    found = np.asarray(values, np.float64)
    signs = 1 - 2 * ((np.arange(2 ** len(found))[:, None] >> np.arange(len(found))) & 1)
    return float(((signs * found).sum(axis=1) <= found.sum() + 1e-12).mean())


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
