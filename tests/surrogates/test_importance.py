"""Importance by shuffling: what matters is named, what does not gets nothing, and it repeats."""

import numpy as np
import pytest

from fedhpo.core.streams import stream
from fedhpo.surrogates.importance import LEAST, importance, landscape


def draws(count, columns=3, seed=0):
    return stream(seed, "test").random((count, columns))


def test_shares_follow_the_variance_that_a_column_makes():
    """Of 2a + b, with a and b uniform, a makes four fifths of the variance."""
    points = draws(400)
    found = importance(points, 2 * points[:, 0] + points[:, 1])
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.shares[0] == pytest.approx(0.8, abs=0.06)
    assert found.shares[1] == pytest.approx(0.2, abs=0.06)
    assert found.shares[2] < 0.02
    assert found.explained > 0.8


def test_a_diverged_trial_hides_nothing():
    points = draws(100)
    scores = points[:, 1].copy()
    plain = importance(points, scores)
    scores[np.argmax(scores)] = 1e12  # the best one stays the best: the ranks are the same
    assert np.array_equal(importance(points, scores).shares, plain.shares)


def test_noise_is_not_explained():
    points = draws(100)
    assert importance(points, stream(1, "noise").random(100)) is None


def test_few_trials_or_equal_scores_tell_nothing():
    points = draws(LEAST - 1)
    assert importance(points, points[:, 0]) is None
    assert importance(draws(50), np.ones(50)) is None


def test_it_repeats_and_takes_what_is_not_active():
    points = draws(60)
    points[::3, 2] = np.nan
    scores = points[:, 0]
    assert np.array_equal(importance(points, scores).shares, importance(points, scores).shares)


def test_the_landscape_rises_where_the_scores_do():
    points = draws(300)
    grid = landscape(points, points[:, 1], across=0, up=1, size=5)
    assert grid.shape == (5, 5)
    assert (np.diff(grid.mean(axis=1)) > 0.05).all()  # along `up`
    assert np.abs(np.diff(grid.mean(axis=0))).max() < 0.05  # not along `across`
