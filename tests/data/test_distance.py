"""Distances between clients' rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from fedhpo.core.errors import InputError
from fedhpo.data import FederatedData, distances, from_clients, wasserstein


def test_wasserstein_in_one_dimension_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((40, 1)), rng.random((40, 1)) ** 2
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    labels = np.zeros(40)
    distances = np.array(wasserstein([(a, labels), (b, labels)])["distances"])
    expected = wasserstein_distance(a[:, 0], b[:, 0]) / (high - low)
    assert distances[0, 1] == pytest.approx(expected, abs=1e-6)
    assert distances.tolist() == distances.T.tolist()


def test_clients_of_one_distribution_are_as_far_apart_as_chance() -> None:
    rng = np.random.default_rng(1)

    def rows(shift: float) -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(size=(80, 3)) + shift, rng.integers(0, 2, 80)

    alike = wasserstein([rows(0.0) for _ in range(6)])
    mean = np.sum(alike["distances"]) / 30
    assert mean == pytest.approx(alike["chance"], rel=0.25)
    apart = wasserstein([rows(0.0), rows(3.0)])
    assert apart["distances"][0][1] > 1.5 * apart["chance"]


def test_clients_cannot_be_compared_alone_or_without_rows() -> None:
    with pytest.raises(InputError, match="at least two clients, found 1"):
        wasserstein([(np.zeros((2, 1)), np.zeros(2))])
    with pytest.raises(InputError, match="found one without"):
        wasserstein([(np.zeros((2, 1)), np.zeros(2)), (np.zeros((0, 1)), np.zeros(0))])


def one_class_each(clients: int, dtype: type = np.float32) -> FederatedData:
    """Client c holds rows of class c % 2 only; features are all alike."""
    held = [(np.zeros((20, 2), dtype), np.full(20, client % 2)) for client in range(clients)]
    return from_clients(held)


def test_distances_of_a_federation_by_hand() -> None:
    found = distances(one_class_each(3), [0, 1, 2])
    assert found is not None
    assert found["clients"] == [0, 1, 2]
    assert found["distances"] == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_many_clients_are_not_all_compared() -> None:
    found = distances(one_class_each(20), range(1, 20))
    assert found is not None
    assert found["clients"] == list(range(1, 17))
    assert np.shape(found["distances"]) == (16, 16)


def test_what_has_no_distance_has_none() -> None:
    assert distances(one_class_each(3), [1]) is None
    assert distances(one_class_each(3, np.int64), [0, 1]) is None  # tokens
    numbers = from_clients([(np.zeros((20, 2), np.float32), np.linspace(0, 1, 20))] * 2)
    assert distances(numbers, [0, 1]) is None


def test_a_missing_number_counts_as_the_mean_of_its_feature():
    labels = np.zeros(2, dtype=int)
    whole = [(np.array([[0.0], [2.0]]), labels), (np.array([[1.0], [1.0]]), labels)]
    holes = [(np.array([[0.0], [2.0]]), labels), (np.array([[1.0], [np.nan]]), labels)]
    assert wasserstein(holes) == wasserstein(whole)
