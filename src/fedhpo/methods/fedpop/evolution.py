"""What both levels of FedPop share: who is worst and best, and by how much a vector is perturbed.

H. Chen, D. Krompass, J. Gu and V. Tresp, *FedPop: Federated Population-based Hyperparameter Tuning*, AAAI
2025; Evo (Eq. 3) itself is `Space.perturb`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings
from fedhpo.schedules.annealing import Annealing, annealed, check_annealing
from fedhpo.space import Space
from fedhpo.space.config import Config

#: What is drawn anew at once.
ResampleBy = Literal["coordinate", "vector"]


def bottom_and_top(scores: Sequence[float], quantile: int) -> tuple[list[int], list[int]]:
    """The members with the worst and with the best `1/quantile` of the scores, each best first.

    Both sets have ceil(n / quantile) of the n members that have a score (not NaN), fewer where they would
    overlap. Less is better; members with equal scores are in the order of their places.

    >>> bottom_and_top([0.5, 0.1, 0.4, 0.1, 0.2], 3)
    ([2, 0], [1, 3])
    >>> bottom_and_top([0.3, math.nan, math.inf], 3)
    ([2], [0])
    """
    order = sorted((s, i) for i, s in enumerate(scores) if not math.isnan(s))
    size = min(-(-len(order) // quantile), len(order) // 2)
    places = [i for _, i in order]
    return places[len(places) - size :], places[:size]


@dataclass(frozen=True)
class Evolution:
    """Evo's strength over the rounds: the width `eps` and the probability `resample`, annealed.

    >>> evolution = Evolution(eps=0.2)
    >>> evolution.at(0, 100), evolution.at(50, 100)
    ((0.2, 0.1), (0.1, 0.05))
    """

    eps: float = 0.1
    resample: float = 0.1
    annealing: Annealing = "cosine"
    resample_by: ResampleBy = "coordinate"

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 <= self.eps < math.inf:
            raise InputError(f"eps must be a finite number of at least 0, not {self.eps!r}")
        if not 0 <= self.resample <= 1:
            raise InputError(f"resample must be a probability from 0 to 1, not {self.resample!r}")
        check_annealing(self.annealing)
        if self.resample_by not in get_args(ResampleBy):
            raise unknown_name("resample_by", self.resample_by, get_args(ResampleBy))

    def at(self, round: int, rounds: int) -> tuple[float, float]:
        """Both numbers after `round` of `rounds` rounds."""
        eps = annealed(self.eps, round, rounds, self.annealing)
        return eps, annealed(self.resample, round, rounds, self.annealing)

    def perturbed(
        self,
        config: Config,
        space: Space,
        round: int,
        rounds: int,
        rng: np.random.Generator,
        scopes: Sequence[str],
        within: tuple[Config, float] | None = None,
    ) -> Config:
        """Evo of a config after `round` of `rounds` rounds; see `Space.perturb` for `within`."""
        return space.perturb(config, *self.at(round, rounds), rng, scopes, self.resample_by, within)
