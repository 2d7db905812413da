"""Whether a race is decided: a bound on the leader being wrong that holds at every look.

A leader is wrong by more than `margin` if some rival's mean score over all clients is better by more than
that. For each rival the hypothesis that it is so is bet against: a wealth of 1 is multiplied, look by look,
by 1 + b (d + margin), where d is how far the leader was ahead at the same clients, for a dozen bets b below 1
whose wealths are averaged. Scores lie in [0, 1], so that no wealth falls below 0, and while the hypothesis is
true it does not grow on average. By Ville's inequality it then ever reaches 1/a with probability a at most,
however often one looks and however scores are spread (Waudby-Smith and Ramdas, 2024, "Estimating means of
bounded random variables by betting"). All leaders that could be named are allowed for by a factor of n - 1.

A bound by estimated variances would decide sooner, and was wrong in up to 46% of races where a rival is far
better at a few clients only.

Looks must draw their clients independently of each other. `benchmarks/decided.py` replays near-ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedhpo.protocol.federation import Floats

#: A race is over when the bound is at most this.
LEVEL = 0.05
#: How much better a rival must be for the leader to be wrong, where nothing is said.
MARGIN = 0.01
#: Metrics whose scores lie in [0, 1].
BOUNDED = ("accuracy", "error")
_BETS = np.geomspace(0.01, 0.98, 12)


def wealths(differences: Sequence[float] | Floats, margin: float) -> Floats:
    """After each look the most that betting on the leader ever made out of 1.

    >>> wealths([0.0, -0.5, 0.1], 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    won = np.asarray(differences, np.float64) + margin
    growth = np.cumprod(1 + np.outer(won, _BETS), axis=0).mean(axis=1)
    found: Floats = np.maximum.accumulate(np.maximum(growth, 1.0))
    return found


@dataclass(frozen=True)
class Bound:
    """`value` bounds the chance that the leader was named and is wrong by more than `margin`."""

    leader: int
    value: float
    margin: float
    looks: int

    @property
    def decided(self) -> bool:
        """Whether that is rare enough."""
        return self.value <= LEVEL

    def to_dict(self, of_all: float, *, stopped: bool) -> dict[str, Any]:
        """For result.json, with a sentence; `of_all` is the bound over those that left the race, too."""
        words = (
            f"after {self.looks} looks the chance of a leader that is worse by more than {self.margin:g} is "
            f"at most {self.value:.2g} beside those that raced to the end, {of_all:.2g} beside all finalists"
        )
        found = {"bound": self.value, "of_all": of_all, "margin": self.margin, "looks": self.looks}
        return {**found, "stopped": stopped, "in_words": words}


def bound_of(seen: Sequence[Sequence[float]], margin: float, rivals: int | None = None) -> Bound:
    """The bound for trials whose scores, less being better, were taken at the same clients look by look.

    One that left the race has fewer of them. `rivals` counts those that took part at first, without one.

    >>> bound_of([[0.1] * 20, [0.6] * 20], 0.01).decided, bound_of([[0.1] * 20, [0.2] * 20], 0.01).decided
    (True, False)
    """
    looks = max(len(scores) for scores in seen)
    racing = [place for place, scores in enumerate(seen) if len(scores) == looks]
    leader = min(racing, key=lambda place: float(np.mean(seen[place])))
    chances = [
        1 / float(wealths(np.subtract(scores, seen[leader][: len(scores)]), margin)[-1])
        for place, scores in enumerate(seen)
        if place != leader
    ]
    count = len(seen) - 1 if rivals is None else rivals
    return Bound(leader, min(1.0, count * max(chances, default=0.0)), margin, looks)
