"""What is left to try: of a table's pool, of a small finite space, or of an endless one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedhpo.protocol.sampler import known
from fedhpo.space import Space
from fedhpo.space.config import Config

#: A space of more configs than these is drawn from, not listed.
_LISTED = 2000
_DRAWN = 500


def finite_size(space: Space) -> int | None:
    """The number of configs of a finite space, None for an endless one.

    >>> from fedhpo.space import Int
    >>> finite_size(Space(client={"epochs": Int(1, 5)}))
    5
    """
    return int(space.size) if math.isfinite(space.size) else None


def untried(
    space: Space,
    asked: Sequence[Config],
    rng: np.random.Generator,
    pool: Sequence[Config] | None = None,
) -> list[Config]:
    """Configs that were not asked for yet, in random order; none if nothing is left.

    All of the pool; all of a space that is small; else draws from the space.

    >>> from fedhpo.space import Choice
    >>> space = Space(client={"epochs": Choice([1, 2])})
    >>> untried(space, [Config(client={"epochs": 1})], np.random.default_rng(0))
    [Config(client={'epochs': 2})]
    """
    tried = known(asked)
    size = finite_size(space)
    if pool is not None:
        left = [config for config in dict.fromkeys(pool) if config not in tried]
    elif size is not None and size <= max(_LISTED, 2 * len(tried)):
        left = [config for config in space.grid(1) if config not in tried]
    else:
        left = []
        while not left:  # some config is free: there are at least twice as many as were tried
            drawn = dict.fromkeys(space.sample(rng) for _ in range(_DRAWN))
            left = [config for config in drawn if config not in tried]
    return [left[place] for place in rng.permutation(len(left))]
