"""A private choice of the best of a public list: by ranks, which a party's losses put in order.

A party's losses may all become others (`unit = "party"`), so that choosing by their values needs noise of
twice their range. Their order needs less: draw a rank from a fixed distribution, and take the config that has
it. Nothing of that draw depends on the data. Whatever the losses are, a config is taken with the weight of
its rank, and no weight is more than exp(epsilon) times another: the choice is epsilon-differentially private,
for one row as for the whole party. It is the exponential mechanism (McSherry and Talwar, 2007) with a utility
of 1 for the best `favoured` and 0 for the others; as the weights of all configs add up to the same whatever
the data, it does not pay the usual factor of 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fedhpo.protocol.federation import Floats

#: The weight of a config that is not among the best, as a whole number: draws are then exact.
_WEIGHT = 2**20
#: From here on a wrong choice is rarer than 1 in 10^10, and weights stay whole numbers of 63 bits.
_MOST = 25.0


def mean_rank(epsilon: float) -> float:
    """The mean rank of what is taken from a long list, as a share of its length; 1/2 is chance.

    >>> [round(mean_rank(epsilon), 3) for epsilon in (10.0, 5.0, 2.0, 0.0)]
    [0.007, 0.076, 0.269, 0.5]
    """
    return 1 / (1 + math.exp(min(epsilon, _MOST) / 2))


def favoured(configs: int, epsilon: float) -> int:
    """How many of the best are taken with the larger weight.

    `K / (1 + exp(epsilon / 2))` of K configs makes the mean rank of what is taken least; that rank is about
    the same number.

    >>> [favoured(100, epsilon) for epsilon in (10.0, 5.0, 2.0)]
    [1, 8, 27]
    """
    return max(1, round(configs * mean_rank(epsilon)))


def best_by_rank(losses: Floats, count: int, epsilon: float, below: Callable[[int], int]) -> list[int]:
    """The places of `count` configs that are likely among those of lowest loss, in the order of the draws.

    They are taken one after the other, each with `epsilon / count`, so that basic composition gives epsilon.
    Of equal losses the one listed first comes first. `below(n)` draws one of 0 to n - 1, each alike.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0).integers
    >>> best_by_rank(np.array([0.5, 0.1, 0.3]), 1, 20.0, lambda n: int(draw(n)))
    [1]
    """
    left = sorted(range(len(losses)), key=lambda place: losses[place])
    return [left.pop(_rank(len(left), epsilon / count, below)) for _ in range(min(count, len(left)))]


def _rank(configs: int, epsilon: float, below: Callable[[int], int]) -> int:
    best = favoured(configs, epsilon)
    # Rounded down, so that no weight is more than exp(epsilon) times another.
    weight = int(_WEIGHT * math.exp(min(epsilon, _MOST)) * (1 - 1e-9))
    others = configs - best
    if below(best * weight + others * _WEIGHT) < best * weight:
        return below(best)
    return best + below(others)
