"""The rules of a campaign: when a proposal is kept or dropped, and how much evidence that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.referee.evidence import evidence, least_pairs

KEEP, DROP, UNDECIDED = "keep", "drop", "undecided"


@dataclass(frozen=True)
class Rules:
    """How a campaign decides.

    Parameters
    ----------
    alpha
        The chance that a campaign keeps any proposal that is no better than its base is at most this.
    proposals
        How many proposals the campaign may judge, M: each is kept at an evidence of M / alpha. None for a
        campaign without end: its j-th proposal is kept at j (j + 1) / alpha.
    least
        The improvement that is worth having, in the metric's own unit: a proposal is dropped once it is
        clear that its improvement is smaller.
    drop
        The chance that a proposal whose improvement is at least `least` is dropped is at most this.
    pairs
        A proposal that so many pairs did not decide, or that they can no longer decide, is undecided.
    after
        Pairs trained after a keep, from which the difference and its interval are computed.
    """

    alpha: float = 0.05
    proposals: int | None = None
    least: float = 0.01
    drop: float = 0.1
    pairs: int = 24
    after: int = 6

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("alpha", "drop"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} must lie between 0 and 1, not {getattr(self, name)!r}")
        if self.proposals is not None and self.proposals < 1:
            raise InputError(f"proposals must be at least 1, not {self.proposals}")
        if not 0 <= self.least < float("inf"):
            raise InputError(f"least must be at least 0, not {self.least!r}")
        if self.after < 2:
            raise InputError(f"after must be at least 2, as an interval needs two pairs, not {self.after}")
        if self.pairs < 1:
            raise InputError(f"pairs must be at least 1, not {self.pairs}")

    def threshold(self, number: int) -> float:
        """The evidence at which the proposal with this number, from 1, is kept.

        >>> Rules(proposals=20).threshold(7), [Rules().threshold(j) for j in (1, 2, 3)]
        (400.0, [40.0, 120.0, 240.0])
        """
        if self.proposals is not None:
            return self.proposals / self.alpha
        return number * (number + 1) / self.alpha

    def least_pairs(self, number: int) -> int:
        """The fewest pairs after which it can be kept.

        >>> Rules(proposals=20).least_pairs(1)
        9
        """
        return least_pairs(self.threshold(number))

    def check_reachable(self, number: int) -> None:
        """Refuse a bound on pairs below which a keep is impossible."""
        least = self.least_pairs(number)
        if self.pairs < least:
            raise InputError(
                f"pairs = {self.pairs}: proposal {number} can be kept after {least} pairs at the earliest "
                f"(evidence {self.threshold(number):g}): allow at least {least}"
            )

    def judge(self, number: int, differences: Sequence[float]) -> str | None:
        """Keep, drop or undecided; None where the next pair is to be trained.

        >>> rules = Rules(proposals=20, pairs=12)
        >>> rules.judge(1, [0.05] * 9), rules.judge(1, [0.05] * 10), rules.judge(1, [-0.02] * 4)
        (None, 'keep', 'drop')
        >>> rules.judge(1, [0.5, -0.5])
        'undecided'
        """
        if not differences:
            return None
        if self.support(differences) >= self.threshold(number):
            return KEEP
        if self.against(differences) >= 1 / self.drop:
            return DROP
        left = self.pairs - len(differences)
        return UNDECIDED if left <= 0 or self.hopeless(number, differences) else None

    def hopeless(self, number: int, differences: Sequence[float]) -> bool:
        """Whether no keep is possible any more within `pairs`, as a pair at most doubles the evidence.

        >>> Rules(proposals=20, pairs=12).hopeless(1, [0.01, -0.02, 0.01, -0.02])
        True
        """
        left = self.pairs - len(differences)
        return self.support(differences) * 2.0**left < self.threshold(number)

    def support(self, differences: Sequence[float]) -> float:
        """The evidence that the proposal is better than the base."""
        return evidence(differences)

    def against(self, differences: Sequence[float]) -> float:
        """The evidence that it is not better by as much as `least`."""
        return evidence([self.least - one for one in differences])

    def to_dict(self) -> dict[str, Any]:
        """For the campaign's file."""
        return asdict(self)
