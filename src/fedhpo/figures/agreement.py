"""Which clients' scores are unlike the others': how far off, and whether they rank models as others do."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedhpo.protocol.federation import Floats, Scores
from fedhpo.protocol.objective import Objective

#: Robust z-scores beyond this are outliers (Iglewicz and Hoaglin, 1993).
FAR = 3.5
#: Clients that an evaluation needs, and scores that a client needs, to be looked at.
CLIENTS, _SCORES = 5, 6
#: A median absolute deviation, as a standard deviation of a normal distribution.
_DEVIATION = 1.4826


@dataclass(frozen=True)
class Agreement:
    """A client: how far its scores are from the median client's, and how well they follow them."""

    client: int
    scores: int
    distance: float
    agreement: float

    @property
    def outlies(self) -> bool:
        """Whether it is far from the others, or ranks models the other way round."""
        return abs(self.distance) > FAR or self.agreement < 0


def agreements(evaluations: Iterable[Scores], objective: Objective) -> list[Agreement]:
    """Every client that was scored often enough, by number.

    `distance` is the median over its evaluations of (score - median) / (1.4826 x median absolute deviation).
    `agreement` is Spearman's correlation between its scores and the medians of the same evaluations.
    """
    own: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for scores in evaluations:
        values = objective.values(scores)
        known = (scores.status == 0) & np.isfinite(values)
        if int(known.sum()) < CLIENTS:
            continue
        middle, spread = middle_of(values[known])
        for client, value in zip(scores.clients[known].tolist(), values[known].tolist(), strict=True):
            own[client].append((value, middle, (value - middle) / spread if spread else 0.0))
    return [
        _client(client, np.array(found)) for client, found in sorted(own.items()) if len(found) >= _SCORES
    ]


def middle_of(values: Floats) -> tuple[float, float]:
    """The median, and a robust standard deviation: 1.4826 times the median absolute deviation."""
    middle = float(np.median(values))
    return middle, _DEVIATION * float(np.median(np.abs(values - middle)))


def _client(client: int, found: Floats) -> Agreement:
    from scipy.stats import spearmanr

    agreement = math.nan  # where nothing changes there is nothing to follow
    if np.ptp(found[:, 0]) and np.ptp(found[:, 1]):
        agreement = float(spearmanr(found[:, 0], found[:, 1]).statistic)
    return Agreement(client, len(found), float(np.median(found[:, 2])), agreement)
