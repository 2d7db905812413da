"""The delete-d jackknife, worked by hand and against simulation."""

import math

import numpy as np
import pytest

from fedhpo.research.bench.jackknife import Estimate, jackknife, together


def test_the_standard_error_worked_by_hand() -> None:
    # Samples {1, 3}, {5, 7}, {9, 11}: means 2, 6, 10, whose variance is 16. Luck: each pair has variance 2,
    # the mean of a pair 1. Samples alone: 16 - 1 = 15, which counts 3 times; luck of the whole mean: 1 / 3.
    found = jackknife(np.array([[1.0, 3.0], [5.0, 7.0], [9.0, 11.0]]))
    assert found.mean == 6.0
    assert found.standard_error == pytest.approx(math.sqrt(3 * 15 + 1 / 3))
    assert found.samples == 3


def test_a_variance_that_is_all_luck_is_not_counted_as_the_samples() -> None:
    # Means 2 and 2: nothing between them. Luck: variance 2 a pair, 1 of its mean, 1 / 2 of both.
    assert jackknife(np.array([[1.0, 3.0], [3.0, 1.0]])).standard_error == pytest.approx(math.sqrt(0.5))


def test_half_kept_counts_once() -> None:
    # kept / (1 - kept) = 1: the plain variance between samples.
    found = jackknife(np.array([[0.0, 0.0], [2.0, 2.0]]), kept=0.5)
    assert found.standard_error == pytest.approx(math.sqrt(2.0))


def test_it_finds_the_standard_error_of_a_mean_over_the_population() -> None:
    """Of 80 members with variance 4 the mean has the standard error sqrt(4 / 80)."""
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(40):
        members = rng.normal(scale=2.0, size=80)
        means = np.array([rng.permutation(members)[:60].mean() for _ in range(50)])
        errors.append(jackknife(np.repeat(means[:, None], 2, axis=1)).standard_error ** 2)
    assert np.mean(errors) == pytest.approx(4 / 80, rel=0.1)


def test_intervals_of_several_differences_are_wider() -> None:
    one = Estimate(0.0, 1.0, 10)
    # Student's t with 9 degrees of freedom at 97.5%, and at 99.5% for five differences together.
    assert one.interval() == pytest.approx((-2.262, 2.262), abs=1e-3)
    assert one.interval(together=5) == pytest.approx((-3.250, 3.250), abs=1e-3)
    assert Estimate(0.0, 1.0, 1).interval() == (-math.inf, math.inf)


def test_tables_are_fixed_and_their_errors_add_up() -> None:
    assert together([Estimate(1.0, 0.6, 10), Estimate(2.0, 0.8, 8)]) == Estimate(1.5, 0.5, 8)
