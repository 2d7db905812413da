"""Private selection: epsilon measured on neighbouring inputs, choices against exact probabilities."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from fedhpo.privacy.noise import SeededNoise
from fedhpo.privacy.selection import one_shot, permute_and_flip, repeated, truncated_negative_binomial

RUNS = 10_000


def outcomes(select, values, count, epsilon, sensitivity, seed):
    noise = SeededNoise(np.random.default_rng(seed))
    values = np.array(values, float)
    return Counter(tuple(select(values, count, epsilon, sensitivity, noise)) for _ in range(RUNS))


def shown_epsilon(first, second):
    """An epsilon that two samples prove, but for a chance of one in a million: a Clopper-Pearson bound."""
    worst = 0.0
    for one, other in ((first, second), (second, first)):
        for outcome in one:
            least = stats.beta.ppf(1e-6, one[outcome], RUNS - one[outcome] + 1)
            most = stats.beta.ppf(1 - 1e-6, other[outcome] + 1, RUNS - other[outcome])
            worst = max(worst, math.log(least / most))
    return worst


#: Neighbours: every value moves by the sensitivity of 0.1, up or down.
NEIGHBOURS = [
    ([0.5, 0.5], [0.6, 0.4], 1),
    ([0.5, 0.5, 0.5], [0.6, 0.4, 0.4], 1),
    ([0.6, 0.5, 0.4, 0.3], [0.5, 0.6, 0.5, 0.4], 2),
]


@pytest.mark.parametrize("select", [one_shot, permute_and_flip, repeated])
@pytest.mark.parametrize(("values", "neighbour", "count"), NEIGHBOURS)
def test_neighbouring_inputs_differ_by_no_more_than_epsilon(select, values, neighbour, count):
    epsilon = 1.5
    first = outcomes(select, values, count, epsilon, 0.1, 1)
    second = outcomes(select, neighbour, count, epsilon, 0.1, 2)
    shown = shown_epsilon(first, second)
    assert shown <= epsilon
    assert shown > 0.1 * epsilon  # the mechanism does look at the values


def test_the_measurement_finds_out_a_mechanism_with_too_little_noise():
    """Permute-and-flip, told half the sensitivity, spends twice the epsilon."""
    first = outcomes(permute_and_flip, [0.5, 0.5], 1, 1.5, 0.05, 1)
    second = outcomes(permute_and_flip, [0.6, 0.4], 1, 1.5, 0.05, 2)
    assert shown_epsilon(first, second) > 1.5


def test_permute_and_flip_against_all_orders_and_coins():
    values, epsilon, sensitivity = [0.9, 0.8, 0.8, 0.3], 2.0, 0.1
    says_yes = [math.exp(epsilon * (v - 0.9) / (2 * sensitivity)) for v in values]
    exact = np.zeros(4)
    for order in itertools.permutations(range(4)):
        chance = 1 / 24
        for place in order:
            exact[place] += chance * says_yes[place]
            chance *= 1 - says_yes[place]
    found = outcomes(permute_and_flip, values, 1, epsilon, sensitivity, 3)
    assert exact.sum() == pytest.approx(1)
    for place in range(4):
        error = math.sqrt(exact[place] * (1 - exact[place]) / RUNS)
        assert found[(place,)] / RUNS == pytest.approx(exact[place], abs=5 * error + 1e-4)


def test_one_shot_has_the_scale_of_the_paper():
    """Of two candidates d apart, the worse is taken where the difference of two Laplace draws exceeds d."""
    epsilon, sensitivity, apart = 1.0, 0.1, 0.2
    scale = 2 * 1 * sensitivity / epsilon
    x = apart / scale
    exact = math.exp(-x) * (2 + x) / 4  # the tail of a difference of two Laplace variables
    found = outcomes(one_shot, [0.5, 0.5 - apart], 1, epsilon, sensitivity, 4)
    assert found[(1,)] / RUNS == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / RUNS))


@pytest.mark.parametrize("select", [one_shot, permute_and_flip, repeated])
def test_with_much_epsilon_the_best_are_found(select):
    noise = SeededNoise(np.random.default_rng(0))
    values = np.array([0.1, 0.9, 0.3, 0.8, 0.2])
    assert select(values, 2, 1e4, 0.01, noise) == [1, 3]


def test_a_random_number_of_looks_has_the_stated_distribution():
    rng = np.random.default_rng(5)
    geometric = [truncated_negative_binomial(1.0, 6.0, rng) for _ in range(RUNS)]
    assert np.mean(geometric) == pytest.approx(6, abs=0.25)
    assert np.mean(np.array(geometric) == 1) == pytest.approx(1 / 6, abs=0.015)
    logarithmic = np.array([truncated_negative_binomial(0.0, 6.0, rng) for _ in range(RUNS)])
    assert logarithmic.mean() == pytest.approx(6, abs=0.5)
    assert (logarithmic == 2).sum() / (logarithmic == 1).sum() == pytest.approx(0.5, abs=0.05)
    # P(2) / P(1) = (1 - gamma) (1 + eta) / 2, Definition 1 of Papernot and Steinke, here with gamma = 1/4.
    half = np.array([truncated_negative_binomial(0.5, 1.5, rng) for _ in range(RUNS)])
    assert (half == 2).sum() / (half == 1).sum() == pytest.approx(0.75 * 1.5 / 2, abs=0.04)
    assert min(geometric) == logarithmic.min() == half.min() == 1
