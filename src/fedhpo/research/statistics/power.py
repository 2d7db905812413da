"""How many replicates a comparison needs, from the spread of a pilot that is then discarded."""

from __future__ import annotations

import math

from scipy.special import nctdtr, stdtrit

from fedhpo.core.errors import InputError


def power_of(replicates: int, difference: float, deviation: float, level: float = 0.95) -> float:
    """The power of a two-sided paired t test: mean `difference`, pairs that spread by `deviation`.

    >>> round(power_of(34, 0.5, 1.0), 3)
    0.808
    """
    if replicates < 2:
        return 0.0
    freedom, centre = replicates - 1, abs(difference) / deviation * math.sqrt(replicates)
    critical = float(stdtrit(freedom, (1 + level) / 2))
    beyond = 1 - float(nctdtr(freedom, centre, critical))
    # Far in the wrong tail the noncentral distribution is 0 for all that matters, and may be NaN.
    wrong = float(nctdtr(freedom, centre, -critical))
    return beyond + (0.0 if math.isnan(wrong) else wrong)


def replicates_for(
    difference: float, deviation: float, power: float = 0.8, level: float = 0.95, most: int = 100_000
) -> int:
    """The fewest replicates with at least this power.

    >>> replicates_for(0.5, 1.0)
    34
    """
    if not difference or not deviation > 0:
        raise InputError(
            f"difference must not be 0 and deviation must be positive, not {difference!r} and {deviation!r}"
        )
    low, high = 1, 2
    while power_of(high, difference, deviation, level) < power:
        low, high = high, 2 * high
        if high > most:
            raise InputError(f"a difference of {difference:g} takes more than {most} replicates")
    while high - low > 1:
        middle = (low + high) // 2
        enough = power_of(middle, difference, deviation, level) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high
