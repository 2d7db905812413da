"""How many clients the private choices of robust halving ask, rung by rung.

A choice may pool several looks at clients into one release: a client pays once for it, about however many
trials. Where N clients take turns, rungs that are chosen in g groups of n clients each weigh
m = ceil(sum g n / N) for the client that is asked most, and a choice of k trials has noise of scale
2 w k m / (epsilon n), w being the window of gaps. So noise depends on how clients are shared among rungs, and
the error of asking only a few on how many messages there are. Both are known beforehand: this takes what
makes the sum of their squares least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from fedhpo.privacy.gaps import gap_width

#: How much the gaps of one trial differ between clients, for want of a measurement.
_SPREAD = 0.2
#: So many numbers of looks are tried in each rung.
_TRIED = 16


@dataclass(frozen=True)
class Pools:
    """Looks in each rung, and the standard deviation of the noise of a choice there."""

    looks: tuple[int, ...]
    noise: tuple[float, ...]


@lru_cache(maxsize=256)
def pools(
    sizes: tuple[int, ...],
    groups: tuple[int, ...],
    *,
    asked: int,
    clients: int,
    scores: int,
    epsilon: float,
    rotates: bool,
    gap: float | None = None,
) -> Pools:
    """The best of all that ask for no more than `scores` evaluations of `asked` clients, or of one a rung.

    >>> found = pools((60, 20, 7), (6, 2, 1), asked=1, clients=80, scores=1296, epsilon=100.0, rotates=True)
    >>> found.looks
    (10, 19, 45)
    """
    everybody = -(-clients // asked)
    tried = sorted({round(value) for value in np.geomspace(1, everybody, _TRIED)})
    taken = [after / parts for after, parts in zip((*sizes[1:], 1), groups, strict=True)]

    def errors(looks: Sequence[int]) -> tuple[float, tuple[float, ...]]:
        counts = [min(clients, times * asked) for times in looks]
        weight = sum(groups)
        if rotates:
            weight = -(-sum(g * n for g, n in zip(groups, counts, strict=True)) // clients)
        each = [epsilon / (weight * k) for k in taken]
        widths = [gap or gap_width(one, n) for one, n in zip(each, counts, strict=True)]
        noise = tuple(2 * w / (one * n) for w, one, n in zip(widths, each, counts, strict=True))
        drawing = sum(_SPREAD**2 / n * (1 - n / clients) for n in counts)
        return drawing + sum(one**2 for one in noise), noise

    most = max(scores, sum(sizes))
    able = [
        looks
        for looks in product(tried, repeat=len(sizes))
        if sum(size * times for size, times in zip(sizes, looks, strict=True)) <= most
    ]
    best = min(able, key=lambda looks: (errors(looks)[0], looks))
    return Pools(best, errors(best)[1])
