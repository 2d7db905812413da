"""Statistics of comparisons, for reproductions and `fedhpo compare` alike.

The unit is the independent replicate: a world, or a table and a seed; never a round or a cell. Two methods
are compared replicate by replicate, with common random numbers where there can be. What is compared, by
which margin and over how many replicates stands in a plan before the first run: see `Plan`.
"""

from fedhpo.research.statistics.family import (
    DOES_NOT_HOLD,
    EQUIVALENT,
    HOLDS,
    UNDECIDED,
    Judged,
    holm,
    judge,
)
from fedhpo.research.statistics.paired import Paired, sign_flip_p
from fedhpo.research.statistics.plan import Plan, Planned
from fedhpo.research.statistics.power import power_of, replicates_for
from fedhpo.research.statistics.rate import Rate

__all__ = [
    "DOES_NOT_HOLD",
    "EQUIVALENT",
    "HOLDS",
    "UNDECIDED",
    "Judged",
    "Paired",
    "Plan",
    "Planned",
    "Rate",
    "holm",
    "judge",
    "power_of",
    "replicates_for",
    "sign_flip_p",
]
