"""The baseline: what a score is compared with, so that better than usual means more weight."""

from __future__ import annotations

from typing import Literal, get_args

FirstBaseline = Literal["zero", "pretrain", "skip"]
FIRST_BASELINES: tuple[str, ...] = get_args(FirstBaseline)


class Baseline:
    """The mean over past rounds, a round of age a counting gamma^a (the last one has age 0, and 0^0 = 1).

    In the first round there is no past. `zero` is FedEx's own choice, which punishes whatever was sampled
    first; `pretrain` the mean score before training; `skip` leaves the first update out.

    >>> baseline = Baseline("zero", gamma=0.5)
    >>> baseline.value(pretrain=3.0)
    0.0
    >>> baseline.add(4.0); baseline.add(1.0)
    >>> baseline.value(pretrain=3.0)  # (1 * 1.0 + 0.5 * 4.0) / (1 + 0.5)
    2.0
    """

    def __init__(self, first: FirstBaseline, gamma: float) -> None:
        self._first, self._gamma = first, gamma
        self._sum = self._count = 0.0

    @property
    def empty(self) -> bool:
        """Whether there is no past yet."""
        return not self._count

    def value(self, pretrain: float) -> float | None:
        """The baseline of this round; None if its update is to be skipped."""
        if self._count:
            return self._sum / self._count
        return {"zero": 0.0, "pretrain": pretrain, "skip": None}[self._first]

    def add(self, mean: float) -> None:
        """This round's mean score becomes the past."""
        self._sum = mean + self._gamma * self._sum
        self._count = 1.0 + self._gamma * self._count
