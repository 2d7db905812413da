"""The model of BOHB (Falkner et al., 2018, section 3.2 and Algorithm 2).

At the highest rung with enough scores, the density of the best configs is compared with that of the worst
(Eq. 3). Candidates are drawn from the good density with wider kernels; the one with the largest ratio of
densities is suggested. A share of the configs is random, whatever was observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings
from fedhpo.protocol.sampler import Observation, known
from fedhpo.samplers._kde import KDE
from fedhpo.samplers._rungs import highest_rung
from fedhpo.samplers.random import Random
from fedhpo.samplers.untried import finite_size, untried
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import Cube, Floats

SPLITS = ("paper", "hpbandster")
#: So often it is drawn again where a suggestion was tried before, until what is left is looked through.
_TRIES = 10


@dataclass(frozen=True)
class BOHB:
    """Suggests what looks more like the best configs of a rung than like its worst ones.

    Parameters
    ----------
    split
        Which scores are good and which are bad: "paper" follows Eq. 3, "hpbandster" the authors' program;
        see `good_and_bad`.
    good_share
        The share of scores that count as good (q).
    candidates
        How many draws from the good density compete.
    random_share
        The share of suggestions that are random.
    bandwidth_factor
        Candidates are drawn with kernels so many times as wide as those of the density.
    """

    split: Literal["paper", "hpbandster"] = "paper"
    good_share: float = 0.15
    candidates: int = 64
    random_share: float = 1 / 3
    bandwidth_factor: float = 3.0

    def __post_init__(self) -> None:
        check_settings(self)
        if self.split not in SPLITS:
            raise unknown_name("split", self.split, SPLITS)
        if not 0 < self.good_share < 1:
            raise InputError(f"good_share must be a share in (0, 1), not {self.good_share!r}")
        if self.candidates < 1:
            raise InputError(f"candidates must be at least 1, not {self.candidates}")
        if not 0 <= self.random_share <= 1:
            raise InputError(f"random_share must be a share in [0, 1], not {self.random_share!r}")
        if not self.bandwidth_factor > 0:
            raise InputError(f"bandwidth_factor must be above 0, not {self.bandwidth_factor!r}")

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The best of `candidates` draws from the density of good configs, none of them tried before."""
        rung = highest_rung(observations, least_scores(space.dimensions, self.split))
        if not rung or not space.dimensions or rng.random() < self.random_share:
            return Random().suggest(space, observations, asked, rng, pool)
        cube = Cube(space)
        good, bad = self._densities(cube, rung)
        if pool is None:
            tried = known(asked)
            for _ in range(_TRIES):
                drawn = good.draw(self.candidates, self.bandwidth_factor, rng)
                config = space.from_unit(drawn[_best(good, bad, drawn)])
                if config not in tried:
                    return config
        left = untried(space, asked, rng, pool)
        if not left:
            return None
        points = cube.points(left)
        logs = good.log_density(points, self.bandwidth_factor)
        likely = np.exp(logs - logs.max())
        places = rng.choice(len(left), self.candidates, p=likely / likely.sum())
        return left[int(places[_best(good, bad, points[places])])]

    def _densities(self, cube: Cube, rung: Sequence[Observation]) -> tuple[KDE, KDE]:
        order = np.argsort([seen.score.rank_value for seen in rung], kind="stable")
        good, bad = good_and_bad(len(rung), len(cube.axes), self.good_share, self.split)
        points = cube.points(rung[place].config for place in order)
        return KDE(cube, points[good]), KDE(cube, points[bad])

    def limit(self, space: Space) -> int | None:
        """The number of configs in a finite space."""
        return finite_size(space)


def least_scores(dimensions: int, split: str = "paper") -> int:
    """No model before a rung has so many scores.

    The paper asks for N_min + 2, where N_min is one more than there are hyperparameters (d). HpBandSter
    needs d + 1 scores on either side of its split.

    >>> least_scores(5), least_scores(5, "hpbandster")
    (8, 12)
    """
    return dimensions + 3 if split == "paper" else 2 * (dimensions + 1)


def good_and_bad(count: int, dimensions: int, share: float, split: str = "paper") -> tuple[slice, slice]:
    """Which of `count` scores, best first, are good and which are bad.

    The paper (Eq. 3): the N_good = max(N_min, q N) best, and the N_bad = max(N_min, N - N_good) worst; of
    few scores some are both. HpBandSter: max(N_min, floor(q N)) good ones, then the
    max(N_min, floor((1 - q) N)) that follow them.

    >>> good_and_bad(8, 5, 0.15), good_and_bad(100, 5, 0.15)
    ((slice(0, 6, None), slice(2, 8, None)), (slice(0, 15, None), slice(15, 100, None)))
    >>> good_and_bad(12, 5, 0.15, "hpbandster")
    (slice(0, 6, None), slice(6, 12, None))
    """
    least = dimensions + 1
    good = max(least, int(share * count + 1e-9))
    if split == "paper":
        bad = max(least, count - good)
        return slice(0, good), slice(count - bad, count)
    bad = max(least, int((1 - share) * count + 1e-9))
    return slice(0, good), slice(good, min(count, good + bad))


def _best(good: KDE, bad: KDE, points: Floats) -> int:
    """The place of the largest ratio of densities."""
    return int(np.argmax(good.log_density(points) - bad.log_density(points)))
