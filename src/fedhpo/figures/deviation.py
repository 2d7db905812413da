"""Which clients' updates are unlike the others': too long or too short, or going another way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedhpo.figures.agreement import CLIENTS, FAR, middle_of
from fedhpo.protocol.federation import Floats, RoundReport

#: Rounds that a client needs to be looked at.
_ROUNDS = 3


@dataclass(frozen=True)
class Deviation:
    """A client: how its updates' lengths and directions differ from the others'.

    `length` and `direction` are medians over its rounds of robust z-scores, among the cohort, of the
    logarithm of an update's length and of its cosine with what all were put together to; `cosine` is the
    median of those.
    """

    client: int
    rounds: int
    length: float
    direction: float
    cosine: float

    @property
    def outlies(self) -> bool:
        """Whether its updates are of another length, or go another way."""
        return abs(self.length) > FAR or self.direction < -FAR or self.cosine < 0


def deviations(reports: Iterable[RoundReport]) -> list[Deviation]:
    """Every client that was in enough rounds whose updates' shapes are known, by number."""
    own: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for report in reports:
        if report.updates is None:
            continue
        length, cosine = report.updates.length, report.updates.cosine
        known = np.isfinite(length) & np.isfinite(cosine) & (length > 0)
        if int(known.sum()) < CLIENTS:
            continue
        shown = zip(_scaled(np.log(length[known])), _scaled(cosine[known]), cosine[known], strict=True)
        for client, found in zip(report.cohort[known].tolist(), shown, strict=True):
            own[client].append(found)
    return [
        Deviation(client, len(found), *(float(one) for one in np.median(found, axis=0)))
        for client, found in sorted(own.items())
        if len(found) >= _ROUNDS
    ]


def _scaled(values: Floats) -> Floats:
    """Robust z-scores; 0 where most values are equal."""
    middle, spread = middle_of(values)
    return (values - middle) / spread if spread else np.zeros(len(values))
