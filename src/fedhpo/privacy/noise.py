"""Where private noise comes from: a seeded generator in simulation, OpenDP for a real release.

Both work on sums and means of clients' scores in [0, 1], in a unit of their own: a score, or a step of the
grid.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from fedhpo.core.errors import MissingExtraError
from fedhpo.protocol.federation import Floats, Ints


class Noise(Protocol):
    """A source of noise, and the unit that it works in."""

    #: As result.json names it.
    name: str
    #: What 1 is worth in `total` and `mean`, as a score.
    unit: float
    #: How far one client can move `total`.
    step: float
    #: For what does not depend on scores, such as how often to draw.
    rng: np.random.Generator

    def total(self, scores: Floats) -> float:
        """The sum of clients' scores, in this unit."""

    def mean(self, scores: Floats) -> float:
        """The mean of clients' scores, in this unit: to choose by."""

    def sensitivity(self, replies: int) -> float:
        """How far one of so many clients can move the mean, in this unit."""

    def steps(self, scores: Floats) -> Any:
        """Each client's score in this unit, before anything is subtracted or added up."""

    def widest(self, width: float) -> float:
        """A difference of scores in this unit, rounded up: how far one client can move a sum of gaps."""

    def laplace(self, values: Floats, scale: float) -> Floats:
        """The values, each with Laplace noise of this scale."""

    def permute_and_flip(self, values: Floats, scale: float) -> int:
        """The place of a value that is nearly the largest; see `fedhpo.privacy.selection`."""


class SeededNoise:
    """Noise of a seeded generator: for simulation.

    >>> noise = SeededNoise(np.random.default_rng(0))
    >>> noise.mean(np.array([0.0, 1.0])), noise.sensitivity(2)
    (0.5, 0.5)
    """

    name = "simulated (numpy, seeded)"
    unit = 1.0
    step = 1.0

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def total(self, scores: Floats) -> float:
        """The plain sum."""
        return float(scores.sum())

    def mean(self, scores: Floats) -> float:
        """The plain mean."""
        return float(scores.mean())

    def sensitivity(self, replies: int) -> float:
        """1/n."""
        return 1 / replies

    def steps(self, scores: Floats) -> Floats:
        """As they are."""
        return scores

    def widest(self, width: float) -> float:
        """As it is."""
        return width

    def laplace(self, values: Floats, scale: float) -> Floats:
        """By numpy; its last bits give the value away to whoever knows how to read them."""
        # Floating-point samples leave gaps that tell the value (Mironov, 2012): hence `ExactNoise`.
        noisy: Floats = values + self.rng.laplace(scale=scale, size=len(values))
        return noisy

    def permute_and_flip(self, values: Floats, scale: float) -> int:
        """Algorithm 1 of McKenna and Sheldon (2020)."""
        likely = np.exp((values - values.max()) / scale)
        order = self.rng.permutation(len(values))
        # The coin of the largest value always says yes, so one of them does.
        return int(order[np.argmax(self.rng.random(len(values)) < likely[order])])


class ExactNoise:
    """Noise of OpenDP on a grid of whole numbers, from the system's randomness: for real releases.

    Each client's score goes to the nearest of `GRID` steps, so that one client moves a sum by at most
    `GRID` steps. A mean is rounded down to a whole step: one of n clients moves it by at most `GRID / n`,
    rounded up.
    """

    GRID = 10**9

    name = "exact (OpenDP)"
    unit = 1 / GRID
    step = float(GRID)

    def __init__(self) -> None:
        try:
            import opendp.prelude as dp
        except ImportError:
            raise MissingExtraError("opendp", "privacy") from None
        dp.enable_features("contrib")
        self.rng = np.random.default_rng()

    def total(self, scores: Floats) -> float:
        """In whole steps; a float holds them exactly."""
        return float(self._total(scores))

    def mean(self, scores: Floats) -> float:
        """In whole steps, rounded down."""
        # Rounding down happens before noise is added, so that it is part of the query and costs no epsilon.
        return float(self._total(scores) // len(scores))

    def _total(self, scores: Floats) -> int:
        return sum(round(self.GRID * float(score)) for score in scores)

    def sensitivity(self, replies: int) -> float:
        """Of rounded means."""
        return float(math.ceil(self.GRID / replies))

    def steps(self, scores: Floats) -> Ints:
        """In whole steps."""
        found: Ints = np.rint(self.GRID * np.asarray(scores, np.float64)).astype(np.int64)
        return found

    def widest(self, width: float) -> int:
        """In whole steps, rounded up."""
        return math.ceil(width * self.GRID)

    def laplace(self, values: Floats, scale: float) -> Floats:
        """The discrete Laplace distribution (Canonne et al., 2020)."""
        add = _adding_laplace(scale)
        return np.array(add([int(value) for value in values]), dtype=np.float64)

    def permute_and_flip(self, values: Floats, scale: float) -> int:
        """OpenDP's noisy max: exponential noise, which chooses just as permute-and-flip does."""
        choose = _choosing_largest(scale)
        return int(choose([int(value) for value in values]))


# To make a mechanism takes OpenDP longer than to run it.


@lru_cache(maxsize=64)
def _adding_laplace(scale: float) -> Any:
    import opendp.prelude as dp

    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale)


@lru_cache(maxsize=64)
def _choosing_largest(scale: float) -> Any:
    import opendp.prelude as dp

    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    return dp.m.make_noisy_max(domain, dp.linf_distance(T="i64"), dp.max_divergence(), scale)
