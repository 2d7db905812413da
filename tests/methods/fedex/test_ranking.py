"""Ranking metrics: hand-computed cases, and SciPy as the oracle."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.methods.fedex.ranking import (
    average_precision,
    compare,
    kendall_tau,
    over_rounds,
    regret,
    spearman,
)

values = st.integers(0, 6)  # few values, so that ties are frequent
pairs = st.integers(2, 30).flatmap(
    lambda n: st.tuples(st.lists(values, min_size=n, max_size=n), st.lists(values, min_size=n, max_size=n))
)


@given(pair=pairs)
@settings(max_examples=100, deadline=None)
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_correlations_are_scipys(pair):
    a, b = pair
    for ours, theirs in ((kendall_tau, scipy.stats.kendalltau), (spearman, scipy.stats.spearmanr)):
        assert ours(a, b) == pytest.approx(float(theirs(a, b).statistic), abs=1e-12, nan_ok=True)


def test_kendall_by_hand():
    # Pairs of (1, 2, 3) against (1, 3, 2): two agree, one does not: (2 - 1) / 3.
    assert kendall_tau([1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)
    # With a tie in one: 2 pairs agree, none disagrees, one is tied: 2 / sqrt(2 * 3).
    assert kendall_tau([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / math.sqrt(6))
    assert math.isnan(kendall_tau([1, 1, 1], [1, 2, 3]))


def test_average_precision_by_hand():
    truth = np.arange(12, 0, -1)  # configs 0, 1, 2, 3 are the four best
    assert average_precision(truth, truth) == 1.0

    def at(places):
        """The four best at these places (from 1) of the given ranking, the others behind in order."""
        order = [None] * 12
        for arm, place in enumerate(places):
            order[place - 1] = arm
        others = iter(range(4, 12))
        order = [next(others) if arm is None else arm for arm in order]
        given = np.empty(12)
        given[order] = np.arange(12, 0, -1)
        return average_precision(given, truth)

    assert at([1, 2, 3, 10]) == pytest.approx((1 + 1 + 1 + 4 / 10) / 4)
    assert at([2, 4, 6, 8]) == pytest.approx((1 / 2 + 2 / 4 + 3 / 6 + 4 / 8) / 4)
    assert at([1, 5, 11, 12]) == pytest.approx((1 + 2 / 5) / 4)  # those beyond the tenth count nothing
    assert at([9, 10, 11, 12]) == pytest.approx((1 / 9 + 2 / 10) / 4)


def test_average_precision_breaks_ties_by_index():
    assert average_precision([0, 0, 0], [3, 2, 1], n=1, k=3) == 1.0
    assert average_precision([0, 0, 0], [1, 2, 3], n=1, k=3) == pytest.approx(1 / 3)


def test_average_precision_divides_by_the_smaller_of_n_and_k():
    assert average_precision([3, 2, 1], [3, 2, 1], n=3, k=1) == 1.0


def test_regret_is_what_the_choice_costs():
    assert regret([5, 1, 2], [0.2, 0.9, 0.5]) == pytest.approx(0.7)
    assert regret([0, 9], [0.2, 0.9]) == 0.0


def test_over_rounds():
    found = over_rounds([[0, 0, 0], [1, 2, 3]], [0.1, 0.2, 0.3])
    assert found["regret"] == pytest.approx([0.2, 0.0])
    assert found["kendall"][1] == found["spearman"][1] == pytest.approx(1.0)
    assert math.isnan(found["kendall"][0])


@given(pair=pairs)
@settings(max_examples=50, deadline=None)
def test_only_the_order_matters(pair):
    a, b = (np.array(one, dtype=float) for one in pair)
    assert compare(a, b).to_dict() == pytest.approx(compare(np.exp(a), b).to_dict(), nan_ok=True)


@pytest.mark.parametrize(("a", "b"), [([1, 2], [1]), ([], []), ([[1]], [[1]]), ([math.nan, 1], [1, 2])])
def test_what_cannot_be_compared_is_refused(a, b):
    with pytest.raises(InputError, match="given and truth must"):
        compare(a, b)
