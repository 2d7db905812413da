"""Noise: its scale is what was planned, from either source."""

import math

import numpy as np
import pytest
from scipy import stats

from fedhpo.core.errors import InputError
from fedhpo.privacy.means import noisy_mean
from fedhpo.privacy.noise import ExactNoise, SeededNoise
from fedhpo.privacy.privacy import Privacy
from fedhpo.search.private import ValueChannel


@pytest.fixture(params=["simulated", "exact"])
def noise(request):
    if request.param == "simulated":
        return SeededNoise(np.random.default_rng(0))
    pytest.importorskip("opendp")
    return ExactNoise()


def test_scale_is_evaluations_over_epsilon_and_clients():
    """Epsilon 1 over 16 evaluations at 100 clients: Lap(0.16), whose mean absolute deviation is 0.16."""
    accuracy = np.random.default_rng(1).random(100)
    channel = ValueChannel(Privacy(epsilon=1.0, evaluations=16), 16)
    noise = SeededNoise(np.random.default_rng(0))
    drawn = [noisy_mean(accuracy, channel.epsilon_each, noise) for _ in range(10_000)]
    assert drawn[0][1] == pytest.approx(16 / (1 * 100))
    check_noise(np.array([value for value, _ in drawn]) - accuracy.mean())


def test_exact_noise_has_the_same_scale():
    pytest.importorskip("opendp")
    accuracy = np.random.default_rng(1).random(100)
    channel = ValueChannel(Privacy(epsilon=1.0, evaluations=16), 16)
    noise = ExactNoise()
    value, scale = noisy_mean(accuracy, channel.epsilon_each, noise)
    assert scale == pytest.approx(16 / (1 * 100))
    assert abs(value - accuracy.mean()) < 30 * scale
    drawn = noise.laplace(np.full(10_000, noise.mean(accuracy)), scale / noise.unit)
    check_noise(drawn * noise.unit - accuracy.mean())


def check_noise(added):
    # The absolute value of Laplace noise spreads by its scale: 0.0016 for the mean of 10,000.
    assert np.abs(added).mean() == pytest.approx(0.16, abs=5 * 0.0016)
    assert stats.kstest(added, stats.laplace(scale=0.16).cdf).pvalue > 1e-4


def test_one_client_moves_a_mean_by_no_more_than_the_sensitivity(noise):
    rng = np.random.default_rng(2)
    for replies in (1, 3, 7, 100):
        scores = rng.random(replies)
        other = scores.copy()
        scores[0], other[0] = 0.0, 1.0
        moved = abs(noise.mean(other) - noise.mean(scores))
        assert moved <= noise.sensitivity(replies) * (1 + 1e-12)
        assert noise.sensitivity(replies) * noise.unit == pytest.approx(1 / replies)


def test_on_the_grid_everything_is_a_whole_number():
    pytest.importorskip("opendp")
    noise = ExactNoise()
    mean = noise.mean(np.array([0.1, 0.2, 0.4]))
    assert mean == math.floor(0.7 * noise.GRID / 3)
    noisy = noise.laplace(np.array([mean] * 50), 3e6)
    assert (noisy == np.round(noisy)).all()
    assert len(set(noisy)) > 40


def test_permute_and_flip_chooses_as_computed(noise):
    """Two candidates, d apart: the worse one is taken with probability exp(-d / scale) / 2."""
    scale, apart = 2e5, 1e5
    taken = [noise.permute_and_flip(np.array([5e5, 5e5 - apart]), scale) for _ in range(3000)]
    expected = math.exp(-apart / scale) / 2
    assert np.mean(taken) == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / 3000))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"epsilon": 1.0, "evaluations": 0}, "evaluations must be"),
        ({"epsilon": 1.0, "mechanism": "gauss"}, "unknown mechanism"),
        ({"epsilon": 1.0, "release": "real"}, "unknown release"),
        ({"epsilon": 1.0, "accounting": "rdp"}, "unknown accounting"),
        ({"epsilon": 1.0, "accounting": "pld"}, "needs a delta"),
        ({"epsilon": 1.0, "delta": 1e-6}, "needs accounting = 'pld'"),
        ({"epsilon": 1.0, "minimum": 1.5}, "minimum must be"),
        ({"epsilon": 1.0, "minimum": 0}, "minimum must be"),
    ],
)
def test_mistakes_are_named(wrong, message):
    with pytest.raises(InputError, match=message):
        Privacy(**wrong)
