"""Importance of held-out effects: what matters is named, what does not gets nothing, and it repeats."""

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
    assert found.values[:2] == pytest.approx([0.8, 0.2], abs=0.06)
    assert found.values[2] < 0.02
    assert found.explained > 0.9
    assert (found.errors < 0.06).all()


def test_the_standard_error_is_that_of_other_draws():
    """Over draws of 60 trials the importances scatter about as their standard errors say."""
    found = []
    for seed in range(12):
        points = draws(60, 2, seed)
        noise = 0.3 * stream(seed, "noise").standard_normal(60)
        found.append(importance(points, points[:, 0] + 0.5 * points[:, 1] + noise))
    known = [one for one in found if one is not None]
    assert len(known) >= 10
    spread = np.std([one.values[0] for one in known], ddof=1)
    told = np.mean([one.errors[0] for one in known])
    assert 0.5 < told / spread < 2


def test_what_two_do_only_together_belongs_to_neither():
    points = draws(400, 2)
    found = importance(points, (points[:, 0] - 0.4) * (points[:, 1] - 0.6))
    assert found.explained > 0.5
    assert found.values.sum() < 0.5 * found.explained


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
    assert np.array_equal(importance(points, scores).values, importance(points, scores).values)


def test_the_landscape_rises_where_the_scores_do():
    points = draws(300)
    grid = landscape(points, points[:, 1], across=0, up=1, size=5)
    assert grid.shape == (5, 5)
    assert (np.diff(grid.mean(axis=1)) > 0.05).all()  # along `up`
    assert np.abs(np.diff(grid.mean(axis=0))).max() < 0.05  # not along `across`
