"""Profiles: hand-computed indices, and what cannot be measured."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.data import heterogeneity_index
from fedhpo.methods.fedtune import MEASURES, profiled
from fedhpo.methods.fedtune.measures import measured


def shares(*values):
    return np.array(values, dtype=float)


@pytest.mark.parametrize(
    ("measure", "mix", "expected"),
    [
        ("heterogeneity_index", (0.5, 0.5, 0, 0, 0), 0.75),
        ("heterogeneity_index", (0.1, 0.1, 0.1, 0.1, 0.6), 0.0),
        ("entropy", (0.5, 0.5, 0, 0), 0.5),
        # H = -(3/4 ln 3/4 + 1/4 ln 1/4) = 0.5623351
        ("entropy", (0.75, 0.25, 0, 0), 1 - 0.5623351 / math.log(4)),
        # Distances 0, 1, 2, 1 in a circle of four: mean square 6/4; here 0.5 x 1 around the first class.
        ("gaussian", (0.5, 0.5, 0, 0), 1 - math.sqrt(0.5 / 1.5)),
        # The last class and the first are neighbours.
        ("gaussian", (0.5, 0, 0, 0.5), 1 - math.sqrt(0.5 / 1.5)),
        # Steps 0, 1, 2, 3: mean 1.5; here half a step after the first class.
        ("poisson", (0.5, 0.5, 0, 0), 1 - 0.5 / 1.5),
        ("poisson", (0.5, 0, 0, 0.5), 1 - 0.5 / 1.5),
    ],
)
def test_hand_computed(measure, mix, expected):
    assert measured(measure, shares(*mix)) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("measure", MEASURES)
def test_from_all_alike_to_a_single_class(measure):
    assert measured(measure, np.full(10, 0.1)) == pytest.approx(0.0, abs=1e-12)
    assert measured(measure, np.eye(10)[3]) == 1.0
    assert measured(measure, np.ones(1)) == 1.0


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.sampled_from(sorted(MEASURES)))
def test_an_index_lies_between_0_and_1_and_knows_no_order(labels, measure):
    index, size = profiled(measure, np.array(labels), 10)
    assert 0 <= index <= 1
    assert size == len(labels)
    assert profiled(measure, np.array(labels[::-1]), 10)[0] == pytest.approx(index)
    if measure in ("gaussian", "poisson"):  # a circle has no beginning
        assert profiled(measure, (np.array(labels) + 3) % 10, 10)[0] == pytest.approx(index)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_the_index_is_that_of_the_data_package(labels):
    found = profiled("heterogeneity_index", np.array(labels), 10)
    assert found == (heterogeneity_index(np.array(labels), 10), len(labels))


def test_language_counts_tokens_and_has_no_circle():
    labels = np.array([[2, 3, -100], [3, 3, 2]])
    assert profiled("heterogeneity_index", labels, 5) == (0.75, 2)
    assert profiled("entropy", labels, 4)[0] == pytest.approx(1 - 0.6730117 / math.log(4))
    with pytest.raises(InputError, match="which tokens have not; allowed for language: heterogeneity_index"):
        profiled("gaussian", labels, 5)


def test_regression_needs_edges():
    targets = np.array([0.5, 1.0, 7.0])
    # Classes: below 1, from 1 below 2, from 2 below 5, from 5 on.
    assert profiled("heterogeneity_index", targets, None, (1.0, 2.0, 5.0)) == (pytest.approx(1 / 3), 3)
    with pytest.raises(InputError, match="regression has none: take a table with edges"):
        profiled("heterogeneity_index", targets, None)


def test_mistakes():
    with pytest.raises(InputError, match="unknown measure 'entropie' \\(did you mean 'entropy'"):
        profiled("entropie", np.array([1]), 3)
    with pytest.raises(InputError, match="labels are empty"):
        profiled("entropy", np.array([], int), 3)
