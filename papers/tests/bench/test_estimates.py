"""Estimates of the bench, worked by hand."""

import math

import numpy as np
import pytest

from fedhpo_papers.bench.estimates import Estimate, estimate, over_tables
from fedhpo_papers.jackknife import Jackknife

KNIFE = Jackknife.of(40, 100, parts=50)  # three quarters kept: variances count three times


def test_the_standard_error_worked_by_hand() -> None:
    # Parts {1, 3}, {5, 7}, {9, 11}: means 2, 6, 10, their variance (16 + 0 + 16) / 3. Luck: each pair has
    # variance 2, the mean of a pair 1. Parts alone: 32 / 3 - 1, three times; luck of the whole mean: 1 / 3.
    found = estimate(np.array([[1.0, 3.0], [5.0, 7.0], [9.0, 11.0]]), KNIFE)
    assert (found.mean, found.parts) == (6.0, 3)
    assert found.standard_error == pytest.approx(math.sqrt(3 * (32 / 3 - 1) + 1 / 3))


def test_a_variance_that_is_all_luck_is_not_counted_as_that_of_parts() -> None:
    # Means 2 and 2: nothing between them. Luck: variance 2 a pair, 1 of its mean, 1 / 2 of both.
    found = estimate(np.array([[1.0, 3.0], [3.0, 1.0]]), KNIFE)
    assert found.standard_error == pytest.approx(math.sqrt(0.5))


def test_one_part_says_nothing_of_its_error() -> None:
    assert math.isnan(estimate(np.array([[1.0, 3.0]]), KNIFE).standard_error)


def test_intervals_of_several_differences_are_wider() -> None:
    one = Estimate(0.0, 1.0, 10)
    # Student's t with 9 degrees of freedom at 97.5%, and at 99.5% for five differences together.
    assert one.interval() == pytest.approx((-2.262, 2.262), abs=1e-3)
    assert one.interval(together=5) == pytest.approx((-3.250, 3.250), abs=1e-3)
    assert Estimate(0.0, 1.0, 1).interval() == (-math.inf, math.inf)


def test_tables_are_fixed_and_their_errors_add_up() -> None:
    assert over_tables([Estimate(1.0, 0.6, 10), Estimate(2.0, 0.8, 8)]) == Estimate(1.5, 0.5, 8)
