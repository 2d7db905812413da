"""The expected gain of hypervolume beside draws."""

import numpy as np

from fedhpo.core.pareto import hypervolume
from fedhpo.surrogates.hypervolume import expected_gain


def test_the_expected_gain_is_the_mean_over_draws():
    rng = np.random.default_rng(0)
    front = np.array([[0.2, 0.9], [0.5, 0.4], [0.8, 0.1]])
    reference = np.array([1.0, 1.0])
    mean, deviation = np.array([0.4, 0.3]), np.array([0.3, 0.2])
    draws = mean + deviation * rng.standard_normal((4000, 2))
    before = hypervolume(front, reference)
    gains = [hypervolume(np.vstack([front, draw]), reference) - before for draw in draws]
    exact = expected_gain(front, reference, (mean[:1], deviation[:1]), (mean[1:], deviation[1:]))[0]
    assert abs(np.mean(gains) - exact) < 4 * np.std(gains) / np.sqrt(len(gains))
