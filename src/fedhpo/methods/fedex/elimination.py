"""Action elimination: arms that are worse than another beyond doubt are tried no more.

Even-Dar, Mannor and Mansour (2006), Action elimination and stopping conditions for the multi-armed bandit
and reinforcement learning problems; for weight sharing as Zahavy et al. (2018) suggest.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedhpo.protocol.federation import Floats


class Elimination:
    """Confidence bounds on each arm's mean score, less the baseline; `delta` bounds the chance of an error.

    >>> arms = Elimination(2, delta=0.1)
    >>> for _ in range(40):
    ...     arms.see(np.array([0, 1]), np.array([0.0, 1.0]) + np.random.default_rng(0).normal(0, 0.1, 2))
    >>> arms.alive.tolist()
    [True, False]
    """

    def __init__(self, arms: int, delta: float) -> None:
        self._delta = delta
        self._count, self._sum, self._squares = np.zeros(arms), np.zeros(arms), np.zeros(arms)
        self.alive: NDArray[np.bool_] = np.ones(arms, dtype=bool)
        #: Arms that are out, the first one first.
        self.order: list[int] = []

    def see(self, arms: NDArray[np.intp], values: Floats) -> None:
        """Take in scores of arms; who falls behind is out for good."""
        if not self._delta:
            return
        for total, added in ((self._count, 1.0), (self._sum, values), (self._squares, values**2)):
            np.add.at(total, arms, added)
        tried = np.flatnonzero(self.alive & (self._count > 0))
        count, mean = self._count[tried], self._sum[tried] / self._count[tried]
        free = self._count.sum() - np.count_nonzero(self._count)
        if free <= 0:
            return
        from scipy.stats import chi2

        # All arms are taken to have one variance, so that an arm tried once has a bound too; what few scores
        # say of it is little, hence its upper confidence limit.
        seen = self._count > 0
        inside = (self._squares[seen] - self._sum[seen] ** 2 / self._count[seen]).sum()
        spread = math.sqrt(max(0.0, float(inside)) / chi2.ppf(self._delta / 2, free))
        # A union bound over arms and numbers of tries: Even-Dar et al., Algorithm 3.
        radius = spread * np.sqrt(2 * np.log(4 * len(self.alive) * count**2 / self._delta) / count)
        behind = tried[mean - radius > (mean + radius).min()]
        for arm in behind[np.argsort(-(mean[np.isin(tried, behind)]), kind="stable")].tolist():
            self.alive[arm] = False
            self.order.append(arm)

    def _mean(self, arm: int) -> float:
        return float(self._sum[arm] / self._count[arm])

    def below(self, log_weights: Floats) -> Floats:
        """The log weights with those that are out below all others, the worst mean lowest."""
        found = log_weights.copy()
        lowest = found[self.alive].min()
        for place, arm in enumerate(sorted(self.order, key=self._mean), start=1):
            found[arm] = lowest - place
        return found
