"""What every private mechanism must do, as tests to inherit from.

    class TestMine(MechanismSuite):
        def mechanism(self) -> Selection:
            return GumbelChoice()

The last test looks for a breach of epsilon: how often two neighbouring inputs lead to the same choice. It can
show that a mechanism is not private, and never that it is.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from fedhpo.privacy.noise import SeededNoise
from fedhpo.privacy.selection import Selection

VALUES = np.array([0.2, 0.8, 0.5, 0.4, 0.79])
#: How often it is run on each of two neighbours, and by how many standard errors it may seem to be too open.
RUNS, ERRORS = 20_000, 4.0


class MechanismSuite:
    """Tests of a mechanism that chooses from a rung."""

    def mechanism(self) -> Selection:
        """A mechanism to test."""
        raise NotImplementedError

    def chosen(self, values: np.ndarray, count: int, epsilon: float, seed: int = 0) -> tuple[int, ...]:
        """The places that it chooses, of values that one client moves by 0.1."""
        noise = SeededNoise(np.random.default_rng(seed))
        return tuple(sorted(self.mechanism()(values.copy(), count, epsilon, 0.1, noise)))

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_it_chooses_as_many_as_asked_each_once(self, count: int) -> None:
        for seed in range(50):
            found = self.chosen(VALUES, count, 0.5, seed)
            assert len(set(found)) == count
            assert set(found) <= set(range(len(VALUES)))

    def test_with_a_large_epsilon_it_chooses_the_best(self) -> None:
        assert {self.chosen(VALUES, 2, 1e6, seed) for seed in range(20)} == {(1, 4)}

    def test_with_a_small_epsilon_any_may_be_chosen(self) -> None:
        found = Counter(place for seed in range(300) for place in self.chosen(VALUES, 1, 1e-3, seed))
        assert set(found) == set(range(len(VALUES)))

    def test_it_draws_from_the_noise_it_is_given(self) -> None:
        assert all(self.chosen(VALUES, 2, 0.5, 7) == self.chosen(VALUES, 2, 0.5, 7) for _ in range(20))

    @pytest.mark.parametrize("count", [1, 2])
    def test_no_outcome_is_much_likelier_at_a_neighbour(self, count: int) -> None:
        epsilon = 1.0
        worst = VALUES + 0.1 * np.array([1, -1, 1, -1, -1])  # all that one client can do
        here, there = (
            Counter(self.chosen(values, count, epsilon, seed) for seed in range(start, start + RUNS))
            for values, start in ((VALUES, 0), (worst, RUNS))
        )
        for a, b in ((here, there), (there, here)):
            for outcome, times in a.items():
                if times < 200:  # too rare to be told
                    continue
                other = max(b[outcome], 1)
                ratio, error = math.log(times / other), math.sqrt(1 / times + 1 / other)
                assert ratio <= epsilon + ERRORS * error, f"{outcome}: {ratio:.2f} is above epsilon {epsilon}"
