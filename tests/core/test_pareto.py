"""Non-dominated sorting and hypervolume, beside Optuna's and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedhpo.core.pareto import crowding, fronts, hypervolume, pareto_order

numbers = st.integers(0, 6).map(float)
points = st.tuples(st.integers(1, 12), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=numbers)
)


@given(points)
def test_fronts_and_volumes_are_those_of_optuna(found):
    multi = pytest.importorskip("optuna.study._multi_objective")
    volume = pytest.importorskip("optuna._hypervolume")
    assert fronts(found).tolist() == multi._fast_non_domination_rank(found).tolist()
    reference = np.full(found.shape[1], 5.0)
    inside = found[(found < reference).all(axis=1)]
    told = volume.compute_hypervolume(inside, reference) if len(inside) else 0.0
    assert hypervolume(found, reference) == pytest.approx(told)


@given(points)
def test_a_point_never_comes_before_one_that_dominates_it(found):
    order = pareto_order(found)
    assert sorted(order) == list(range(len(found)))
    for place, later in enumerate(order):
        for earlier in order[:place]:
            better = (found[later] <= found[earlier]).all() and (found[later] < found[earlier]).any()
            assert not better


def test_the_best_of_the_first_number_comes_first_and_the_loneliest_next():
    # All on one front; of those between the ends (0.4, 0.3) has its neighbours farther away.
    found = np.array([[1.0, 0.0], [0.1, 0.8], [0.0, 1.0], [0.4, 0.3]])
    assert pareto_order(found) == [2, 0, 3, 1]
    assert crowding(found)[[1, 3]].tolist() == pytest.approx([0.4 + 0.7, 0.9 + 0.8])


def test_points_that_break_a_constraint_come_last_the_least_broken_first():
    found = np.array([[0.0, 0.0], [5.0, 5.0], [1.0, 1.0]])
    assert pareto_order(found, [0.2, 0.0, 0.1]) == [1, 2, 0]
