"""Hand-made parties."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Choice, Float, Int, Space
from fedhpo.space.config import Config

LINE = Space(client={"x": Float(0, 1)})
#: The algorithm decides which of the others are active.
MIXED = Space(
    client={
        "depth": Int(1, 9, when={"model.algorithm": "trees"}),
        "C": Float(0.01, 100, log=True, when={"model.algorithm": ["svm", "linear"]}),
    },
    model={"algorithm": Choice(["trees", "svm", "linear"])},
)


def on_line(party: int, xs: Iterable[float], loss: Callable[[float], float], size: int = 100) -> PartyPairs:
    """A party that tried these points of `LINE`."""
    points = [float(x) for x in xs]
    configs = tuple(Config(client={"x": x}) for x in points)
    return PartyPairs(party, size, configs, tuple(float(loss(x)) for x in points))


def opposed() -> list[PartyPairs]:
    """Two adaptive searches that went to different ends: losses are the squared distance to 0.1 and 0.9.

    Each knows its own end well and has seen little of the other's, where its loss is 0.64. In the middle
    both have 0.16, the best there is for the worse of them (and for their mean).
    """
    rest = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7)
    low, high = np.linspace(0.05, 0.15, 21), np.linspace(0.85, 0.95, 21)
    return [
        on_line(0, [*low, *rest, 0.9], lambda x: (x - 0.1) ** 2),
        on_line(1, [*high, *rest, 0.1], lambda x: (x - 0.9) ** 2),
    ]


def mixed_party(party: int, seed: int, pairs: int = 25) -> PartyPairs:
    """Random configs of `MIXED` with losses that hang on what is active."""
    rng = np.random.default_rng(seed)
    configs = tuple(MIXED.sample(rng) for _ in range(pairs))
    losses = [
        0.1 * config.client["depth"] if "depth" in config.client else float(MIXED.to_unit(config)[1])
        for config in configs
    ]
    return PartyPairs(party, 50 + party, configs, tuple(losses))
