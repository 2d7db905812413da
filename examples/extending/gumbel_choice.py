"""A private mechanism of one's own: the exponential mechanism by Gumbel noise. Used from gumbel_choice.toml.

The largest values after Gumbel noise of scale `2 count sensitivity / epsilon` on each: `count` draws of the
exponential mechanism one after the other, without replacement (Durfee and Rogers, 2019, Practical
differentially private top-k selection), each with epsilon / count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedhpo.privacy.noise import Noise


@dataclass(frozen=True)
class GumbelChoice:
    """`caution` times as much noise as epsilon asks for."""

    caution: float = 1.0

    def __post_init__(self) -> None:
        if not self.caution >= 1:
            raise ValueError(f"caution must be at least 1, not {self.caution}")

    def __call__(
        self, values: NDArray[np.float64], count: int, epsilon: float, sensitivity: float, noise: Noise
    ) -> list[int]:
        """The places of `count` values; more is better."""
        scale = self.caution * 2 * count * sensitivity / epsilon
        noisy = values + noise.rng.gumbel(scale=scale, size=len(values))
        return [int(place) for place in np.argsort(-noisy)[:count]]
