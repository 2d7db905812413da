import dataclasses

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.data import FederatedData, Split, from_clients, load


def small(**changes):
    """Two clients: a holds rows 0..3, b rows 4..7; the last of each for validation and test."""
    data = FederatedData(
        x=np.arange(16, dtype=np.float32).reshape(8, 2),
        y=np.array([0, 1, 0, 1, 0, 1, 0, 1]),
        train=Split.from_lists([[0, 1], [4, 5]]),
        validation=Split.from_lists([[2], [6]]),
        test=Split.from_lists([[3], [7]]),
        task="classification",
        classes=2,
        client_names=("a", "b"),
    )
    return dataclasses.replace(data, **changes)


def test_rows_by_client():
    split = Split.from_lists([[5, 2], [], [7]])
    assert split.indices.dtype == split.offsets.dtype == np.int64
    assert split.offsets.tolist() == [0, 2, 2, 3]
    assert [split.rows(c).tolist() for c in range(3)] == [[5, 2], [], [7]]
    assert split.owners.tolist() == [0, 0, 2]
    assert split.places.tolist() == [0, 1, 0]
    with pytest.raises(IndexError, match="client 3 of 3"):
        split.rows(3)


def test_where_keeps_all_clients():
    split = Split.from_lists([[5, 2], [1], [7]]).where(np.array([False, True, False, True]))
    assert [split.rows(c).tolist() for c in range(3)] == [[2], [], [7]]


def test_shuffled_moves_rows_only_within_clients():
    split = Split.from_lists([range(50), range(50, 80)])
    other = split.shuffled(np.random.default_rng(0))
    assert other.rows(0).tolist() != split.rows(0).tolist()
    assert [sorted(other.rows(c)) for c in (0, 1)] == [list(range(50)), list(range(50, 80))]


def test_facts_of_a_federation():
    data = small(validation=Split.from_lists([[2], []]))
    assert data.validate() is data
    assert (data.clients, data.shape, data.is_tokens) == (2, (2,), False)
    assert data.train_clients.tolist() == [0, 1]
    assert data.validation_clients.tolist() == [0]
    assert repr(data) == (
        "<custom: 2 clients, train 4 rows of 2, validation 1 rows of 1, test 2 rows of 2; "
        "x (2,) float32; classification, 2 classes>"
    )


def test_tokens_are_integers_along_one_axis_that_are_not_scaled():
    tokens = np.ones((8, 5), dtype=np.uint8)
    assert small(x=tokens).is_tokens
    assert not small(x=tokens, std=np.float32([16])).is_tokens
    assert not small(x=np.ones((8, 1, 5, 5), dtype=np.uint8)).is_tokens


def bad_x(value):
    x = np.zeros((8, 2), dtype=np.float32)
    x[6, 1] = value
    return x


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": bad_x(np.nan)}, r"client 'b', validation: x is NaN or infinite in 1 of 1 rows"),
        ({"x": bad_x(np.inf)}, r"client 'b', validation: x is NaN"),
        (
            {"y": np.array([0, 1, 0, 1, 0, 5, 0, 1])},
            r"client 'b', train: y is not in 0..1 \(found 5\) in 1 of 2",
        ),
        ({"y": np.array([0, 1, 0, -1, 0, 1, 0, 1])}, r"client 'a', test: y is not in 0..1 \(found -1\)"),
        ({"y": np.zeros(7, dtype=np.int64)}, "x has 8 rows, y 7"),
        ({"y": np.zeros(8, dtype=np.int32)}, "y is int32; classification needs int64"),
        ({"x": np.zeros((8, 2))}, "x is float64"),
        ({"task": "clasification"}, "did you mean 'classification'"),
        ({"classes": None}, "classes is None"),
        ({"train": Split.from_lists([[0, 1]])}, "validation is over 2 clients, train over 1|2 names for 1"),
        ({"train": Split.from_lists([[0, 1], [8]])}, r"train, client 'b': row 8 is not in 0..7"),
        ({"train": Split(np.array([0, 1]), np.array([0, 2, 1]))}, "offsets must rise"),
        ({"train": Split.from_lists([[], []])}, "no client has training rows"),
        ({"train": Split.from_lists([[0, 2], [4]])}, "client 'a': row 2 is in both train and validation"),
        ({"mean": np.zeros(3, np.float32)}, r"mean has shape \(3,\); it must broadcast to a sample's \(2,\)"),
        ({"std": np.zeros(2, np.float32)}, "std must be finite and positive"),
        ({"client_names": ("a",)}, "1 names for 2 clients"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        small(**changes).validate()


def test_client_without_any_row_is_named():
    none = Split.from_lists([[0], []])
    empty = Split.from_lists([[], []])
    with pytest.raises(InputError, match="client 'b' has no rows at all"):
        small(train=none, validation=empty, test=empty).validate()


def test_rows_that_nobody_holds_may_be_anything():
    small(x=bad_x(np.nan), validation=Split.from_lists([[2], []])).validate()


def test_regression_targets_must_be_finite():
    y = np.zeros(8, dtype=np.float32)
    small(task="regression", classes=None, y=y).validate()
    y[3] = np.inf
    with pytest.raises(InputError, match="client 'a', test: y is NaN or infinite"):
        small(task="regression", classes=None, y=y).validate()


def test_language_ignores_padding_but_checks_tokens():
    x = np.ones((8, 3), dtype=np.int16)
    y = np.full((8, 3), -100)
    y[:, 0] = 3
    data = small(task="language", classes=4, x=x, y=y)
    assert data.validate().is_tokens
    x[5, 2] = 4
    with pytest.raises(InputError, match=r"client 'b', train: x has a token that is not in 0..3 \(found 4\)"):
        data.validate()


def test_a_hundred_thousand_clients():
    pairs = [(np.zeros((2, 1), np.float32), np.zeros(2, np.int64))] * 100_000
    data = from_clients(pairs, validation=0.5, test=0.0)
    assert data.clients == len(data.train_clients) == len(data.validation_clients) == 100_000
    data = load("synthetic", clients=100_000, samples=2, dimension=4, classes=2)
    assert len(data.train_clients) == 100_000
