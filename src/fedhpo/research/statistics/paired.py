"""Two methods compared replicate by replicate: mean and median difference, interval, test, collapses."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Floats
from fedhpo.research.statistics.rate import Rate

#: With fewer pairs than this the mean need not be nearly normal: the sign-flip test must agree.
FEW = 15
#: Sums that differ by less than this share of the largest count as equal: they differ by rounding only.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Paired:
    """Differences, one for each replicate; positive where the first method is better.

    >>> found = Paired((1.0, 2.0, 3.0))
    >>> found.mean, found.median, round(found.error, 3)
    (2.0, 2.0, 0.577)
    >>> [round(bound, 3) for bound in found.interval()]  # t with 2 degrees of freedom: 4.303
    [-0.484, 4.484]
    """

    differences: tuple[float, ...]

    def __post_init__(self) -> None:
        for place, value in enumerate(self.differences):
            if not math.isfinite(value):
                raise InputError(
                    f"difference {place} is {value}: a run that diverged counts at chance, and is listed"
                )

    @classmethod
    def of(cls, first: Mapping[Any, float], second: Mapping[Any, float]) -> Paired:
        """The differences of the replicates that both have, in order of their names.

        >>> Paired.of({0: 3.0, 1: 5.0, 2: 9.0}, {1: 4.0, 0: 1.0})
        Paired(differences=(2.0, 1.0))
        """
        both: list[Hashable] = sorted(first.keys() & second.keys())
        return cls(tuple(first[one] - second[one] for one in both))

    @property
    def count(self) -> int:
        """The number of pairs."""
        return len(self.differences)

    @property
    def mean(self) -> float:
        """The mean difference; NaN without pairs."""
        return float(np.mean(self.differences)) if self.differences else math.nan

    @property
    def median(self) -> float:
        """The median difference; NaN without pairs."""
        return float(np.median(self.differences)) if self.differences else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean; NaN of fewer than two pairs."""
        if self.count < 2:
            return math.nan
        return float(np.std(self.differences, ddof=1)) / math.sqrt(self.count)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's t interval of the mean; without bounds for fewer than two pairs."""
        if self.count < 2:
            return -math.inf, math.inf
        reach = float(stdtrit(self.count - 1, (1 + level) / 2)) * self.error
        return self.mean - reach, self.mean + reach

    def p_value(self, threshold: float = 0.0) -> float:
        """Two-sided: that the mean is `threshold`. Student's t test.

        Below 15 pairs it is the larger of that and the sign-flip test's, so that neither few nor odd
        differences decide alone.
        """
        if self.count < 2:
            return 1.0
        t_test = _t_p(self.mean - threshold, self.error, self.count - 1)
        if self.count >= FEW:
            return t_test
        return max(t_test, sign_flip_p([value - threshold for value in self.differences]))

    def collapses(self, depth: float = 10.0) -> Rate:
        """How often the first method ends more than `depth` below the second.

        >>> print(Paired((1.0, -12.0, 0.5)).collapses())
        1 of 3 (0.8% to 90.6%)
        """
        return Rate(sum(value < -depth for value in self.differences), self.count)

    def __str__(self) -> str:
        """The mean with its interval of 95%.

        >>> print(Paired((1.0, 2.0, 3.0)))
        +2.00 [-0.48, +4.48] (3)
        """
        if not self.differences:
            return "–"
        if self.count < 2:
            return f"{self.mean:+.2f} (1)"
        low, high = self.interval()
        return f"{self.mean:+.2f} [{low:+.2f}, {high:+.2f}] ({self.count})"


def _t_p(gap: float, error: float, freedom: int) -> float:
    if error == 0:
        return 1.0 if gap == 0 else 0.0
    return float(2 * stdtr(freedom, -abs(gap) / error))


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p-value of the sign-flip permutation test on the mean, over all 2^n patterns of signs.

    It is exact where differences are as likely as their negatives, whatever their distribution.

    >>> sign_flip_p([1.0, 2.0, 3.0])  # of 8 patterns two are as far out: all plus, all minus
    0.25
    """
    if len(differences) > 20:
        raise InputError(
            f"the sign-flip test goes over 2^n patterns: at most 20 pairs, not {len(differences)}"
        )
    sums: Floats = np.zeros(1)
    for value in differences:
        sums = np.concatenate([sums + value, sums - value])
    seen = abs(math.fsum(differences))
    slack = _ROUNDING * max(1e-300, math.fsum(abs(value) for value in differences))
    return float(np.mean(np.abs(sums) >= seen - slack))
