"""Faults that were planted: each must be seen, or the audit sees nothing."""

from __future__ import annotations

from unittest import mock

import numpy as np

from auditing import mechanisms
from auditing.bound import Outcomes, evidence
from auditing.mechanisms import (
    EPSILON,
    ROTATING,
    SLOTS,
    Mechanism,
    asked_in_turn,
    means,
    odd_score,
    one_mean,
)
from fedhpo.privacy.noise import Noise, SeededNoise
from fedhpo.privacy.rotation import most_asked
from fedhpo.protocol.federation import Floats
from fedhpo.search.evaluator import Evaluator


class HalfNoise(SeededNoise):
    """Half the noise that was asked for."""

    def laplace(self, values: Floats, scale: float) -> Floats:
        """Of half the scale."""
        return super().laplace(values, scale / 2)


def half_the_noise(world: int, noise: Noise, draws: int) -> Outcomes:
    """A mean whose source of noise gives too little."""
    return one_mean(world, HalfNoise(noise.rng), draws)


def pairing_counted_once(world: int, noise: Noise, draws: int) -> Outcomes:
    """Three means at one cohort, as if each had a cohort of its own."""
    return means(world, noise, draws, 3, EPSILON)


def drawn_anew(world: int, noise: Noise, draws: int) -> Outcomes:
    """A release that is repeated after it was seen, with fresh noise, and paid once."""
    return means(world, noise, draws, 2, EPSILON)


def random_cohorts(world: int, noise: Noise, draws: int) -> Outcomes:
    """Cohorts drawn at random for every score, paid as if they rotated: some client is in too many."""
    rng = np.random.default_rng(1)
    evaluator, population = Evaluator(clients=1), np.arange(ROTATING)

    def cohorts(draw: int) -> list[np.ndarray]:
        return [evaluator.draw(population, rng) for _ in range(SLOTS)]

    most = most_asked(SLOTS, 1, ROTATING)
    return evidence(asked_in_turn(world, noise, draws, cohorts, 0, EPSILON / most))


def nan_dropped(world: int, noise: Noise, draws: int) -> Outcomes:
    """A score that is NaN is left out, and how many replied is told."""

    def dropping(values: Floats, *, maximise: bool) -> Floats:
        return values[~np.isnan(values)]

    with mock.patch.object(mechanisms, "bounded", dropping):
        return odd_score(world, noise, draws)


FAULTS = (
    Mechanism("pairing counted once", pairing_counted_once),
    Mechanism("random draws for rotation", random_cohorts),
    Mechanism("half the noise", half_the_noise),
    Mechanism("NaN dropped", nan_dropped),
    Mechanism("a retry drawn anew", drawn_anew),
)
