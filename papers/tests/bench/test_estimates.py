"""Estimates of the bench, worked by hand."""

import math

import numpy as np
import pytest

from fedhpo_papers.bench.estimates import Estimate, by_table, estimate, over_tables, sign_flip


def test_the_standard_error_worked_by_hand() -> None:
    # 16 parts {1, 3} and 16 {5, 7}: means 2 and 6, each 2 from their mean 4. A bootstrap of the mean of 32
    # has the error 2 / sqrt(31); what seeds of one part differ by is in the means of parts already.
    found = estimate(np.array([[1.0, 3.0], [5.0, 7.0]] * 16))
    assert (found.mean, found.parts) == (4.0, 32)
    assert found.standard_error == pytest.approx(2 / math.sqrt(31))


def test_it_is_that_of_a_bootstrap_of_whole_parts() -> None:
    rng = np.random.default_rng(0)
    values = rng.exponential(size=(50, 1)) + 0.3 * rng.exponential(size=(50, 2))
    drawn = values[rng.integers(50, size=(20_000, 50))].mean(axis=(1, 2))
    assert estimate(values).standard_error == pytest.approx(drawn.std() * math.sqrt(50 / 49), rel=0.02)


def test_the_error_repeats_itself() -> None:
    """Parts with exponential regrets, 100 seeds, 400 times: nine in ten errors are near the middle one."""
    rng = np.random.default_rng(1)
    values = rng.exponential(size=(400, 50, 1)) + rng.exponential(size=(400, 50, 2))
    errors = np.array([estimate(one).standard_error for one in values])
    low, middle, high = np.quantile(errors, [0.05, 0.5, 0.95])
    assert 0.75 * middle < low < high < 1.3 * middle


def test_too_few_parts_say_nothing_of_their_error() -> None:
    found = estimate(np.array([[1.0, 3.0]] * 31))
    assert math.isnan(found.standard_error)
    assert found.interval() == (-math.inf, math.inf)


def test_verdicts_take_the_table_as_unit() -> None:
    # Log ratios -1, -2, -3: mean -2, deviation 1; Student's t with 2 degrees of freedom at 95% is 2.92.
    found = by_table([-1.0, -2.0, -3.0])
    assert found.interval(level=0.9)[1] == pytest.approx(-2 + 2.92 / math.sqrt(3), abs=1e-3)
    assert math.isnan(by_table([1.0]).standard_error)
    assert sign_flip([-1.0, 2.0]) == 0.75  # of -3, -1, 1 and 3 only 3 is above 1


def test_intervals_of_several_differences_are_wider() -> None:
    one = Estimate(0.0, 1.0, 10)
    # Student's t with 9 degrees of freedom at 97.5%, and at 99.5% for five differences together.
    assert one.interval() == pytest.approx((-2.262, 2.262), abs=1e-3)
    assert one.interval(together=5) == pytest.approx((-3.250, 3.250), abs=1e-3)
    assert Estimate(0.0, 1.0, 1).interval() == (-math.inf, math.inf)


def test_tables_are_fixed_and_their_errors_add_up() -> None:
    assert over_tables([Estimate(1.0, 0.6, 10), Estimate(2.0, 0.8, 8)]) == Estimate(1.5, 0.5, 8)
