"""A lower bound of epsilon from draws of two neighbouring worlds.

A mechanism is epsilon-differentially private only if no event is more than e^epsilon times as likely in the
one world as in the other. The event is chosen on one half of the draws and counted on the other half, so
that choosing it costs no confidence; Clopper and Pearson's bounds hold for any number of draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

#: Of the whole bound: each of its two proportions may be wrong with half of it.
CONFIDENCE = 0.999
#: Events that are looked at: a statistic beyond one of so many quantiles.
_EVENTS = 400

Outcomes = NDArray[np.float64]


def log_ratio(likely: Any, draws: int, rare: Any, rare_draws: int, delta: float = 0.0) -> NDArray[np.float64]:
    """A lower bound of log((p - delta) / q), where an event came `likely` times at p, `rare` times at q.

    >>> round(float(log_ratio(50_000, 100_000, 18_394, 100_000)), 3)  # p / q = e
    0.967
    """
    wrong = (1 - CONFIDENCE) / 2
    likely, rare = np.asarray(likely), np.asarray(rare)
    low = np.where(likely > 0, beta.ppf(wrong, np.maximum(likely, 1), draws - likely + 1), 0.0)
    high = np.where(rare < rare_draws, beta.ppf(1 - wrong, rare + 1, np.maximum(rare_draws - rare, 1)), 1.0)
    with np.errstate(divide="ignore"):
        found: NDArray[np.float64] = np.log(np.maximum(low - delta, 0.0) / high)
    return found


def epsilon_at_least(world: Outcomes, neighbour: Outcomes, delta: float = 0.0) -> float:
    """What epsilon is at least, by draws of a number in each world; large ones speak for `neighbour`."""
    halves = [(one[: len(one) // 2], one[len(one) // 2 :]) for one in (world, neighbour)]
    (choose, test), (choose_neighbour, test_neighbour) = halves
    limits = np.unique(np.quantile(np.concatenate([choose, choose_neighbour]), np.linspace(0, 1, _EVENTS)))
    best = max(
        (float(found), int(place), above)
        for above in (True, False)
        for place, found in enumerate(_bounds(choose, choose_neighbour, limits, above, delta))
    )
    found = _bounds(test, test_neighbour, limits[[best[1]]], best[2], delta)
    return max(0.0, float(found[0]))


def _bounds(
    world: Outcomes, neighbour: Outcomes, limits: Outcomes, above: bool, delta: float
) -> NDArray[np.float64]:
    """For the events "at least a limit", more likely in the neighbour, or "below it", in the world."""
    here, there = (len(one) - np.searchsorted(np.sort(one), limits) for one in (world, neighbour))
    if above:
        return log_ratio(there, len(neighbour), here, len(world), delta)
    return log_ratio(len(world) - here, len(world), len(neighbour) - there, len(neighbour), delta)


def evidence(outcomes: Outcomes) -> Outcomes:
    """How much each draw speaks for the neighbour: one row of numbers a draw, 0 where the world has its
    exact value and 1 where the neighbour has it. With Laplace noise this orders draws by their likelihood.

    >>> evidence(np.array([[0.0, 1.0], [2.0, 0.75]])).tolist()
    [0.0, 1.5]
    """
    found: Outcomes = np.clip(2 * outcomes - 1, -1, 1).sum(axis=1)
    return found
