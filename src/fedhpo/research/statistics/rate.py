"""How often something happens, with an interval that is exact however rare it is."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import betaincinv

from fedhpo.core.errors import InputError


@dataclass(frozen=True)
class Rate:
    """`count` of `of` replicates.

    >>> print(Rate(3, 16))
    3 of 16 (4.0% to 45.6%)
    """

    count: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.count <= self.of:
            raise InputError(f"count must lie between 0 and of ({self.of}), not {self.count}")

    @property
    def share(self) -> float:
        """The share of replicates; NaN of none."""
        return self.count / self.of if self.of else float("nan")

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of Clopper and Pearson (1934): each tail has at most half of what `level` leaves.

        >>> low, high = Rate(0, 80).interval()  # high solves (1 - high)^80 = 0.025
        >>> low, round(high, 4)
        (0.0, 0.0451)
        """
        tail = (1 - level) / 2
        low = float(betaincinv(self.count, self.of - self.count + 1, tail)) if self.count else 0.0
        high = (
            float(betaincinv(self.count + 1, self.of - self.count, 1 - tail)) if self.count < self.of else 1.0
        )
        return low, high

    def __str__(self) -> str:
        if not self.of:
            return "none"
        low, high = self.interval()
        return f"{self.count} of {self.of} ({100 * low:.1f}% to {100 * high:.1f}%)"
