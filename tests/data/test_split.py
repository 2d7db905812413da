import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.data import ClientPools, InsideClients, Split, split_from_dict

quick = settings(max_examples=60, deadline=None)
partitions = st.lists(st.integers(1, 30), min_size=3, max_size=12).map(
    lambda sizes: Split.from_sizes(np.random.default_rng(0).permutation(sum(sizes)), np.array(sizes))
)


def rows_of(parts, client):
    return sorted(np.concatenate([part.rows(client) for part in parts]).tolist())


@quick
@given(partitions, st.floats(0, 0.49), st.floats(0, 0.49), st.booleans(), st.integers(0, 5))
def test_inside_clients_loses_and_moves_nothing(partition, validation, test, shuffle, seed):
    parts = InsideClients(validation, test, shuffle)(partition, np.random.default_rng(seed))
    for client in range(partition.clients):
        assert rows_of(parts, client) == sorted(partition.rows(client).tolist())
    assert parts[0].sizes.min() >= 1
    for part, share in zip(parts[1:], (validation, test), strict=True):
        assert (part.sizes <= share * partition.sizes + 0.5 + 1e-6).all()


@quick
@given(partitions, st.integers(0, 5))
def test_client_pools_are_disjoint_and_complete(partition, seed):
    parts = ClientPools(validation=1, test=1, inside=0.2)(partition, np.random.default_rng(seed))
    for client in range(partition.clients):
        assert rows_of(parts, client) == sorted(partition.rows(client).tolist())
    train, validation, test = (part.sizes > 0 for part in parts)
    assert (validation & ~train).sum() == 1
    assert test.sum() == 1
    assert not (test & (train | validation)).any()


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (1, (1, 0, 0)),
        (2, (2, 0, 0)),
        (4, (4, 0, 0)),
        (5, (3, 1, 1)),
        (14, (12, 1, 1)),
        (15, (11, 2, 2)),
        (25, (19, 3, 3)),
    ],
)
def test_sizes_are_rounded_half_up(rows, sizes):
    parts = InsideClients()(Split.from_lists([range(rows)]), np.random.default_rng(0))
    assert tuple(int(part.sizes[0]) for part in parts) == sizes


def test_training_keeps_a_row_and_test_gives_way_first():
    parts = InsideClients(0.45, 0.45)(Split.from_lists([range(2), range(3)]), np.random.default_rng(0))
    assert [part.sizes.tolist() for part in parts] == [[1, 1], [1, 1], [0, 1]]


def test_order_can_be_kept():
    parts = InsideClients(0.2, 0.2, shuffle=False)(Split.from_lists([range(5)]), np.random.default_rng(0))
    assert [part.rows(0).tolist() for part in parts] == [[0, 1, 2], [3], [4]]


def test_pools_by_share_or_number():
    partition = Split.from_lists([[c] for c in range(20)])
    parts = ClientPools(validation=0.2, test=3)(partition, np.random.default_rng(0))
    assert [len(part.indices) for part in parts] == [13, 4, 3]
    parts = ClientPools(validation=0.001, test=0)(partition, np.random.default_rng(0))
    assert [len(part.indices) for part in parts] == [19, 1, 0]


def test_inside_share_stays_with_training_clients():
    partition = Split.from_lists([range(10 * c, 10 * c + 10) for c in range(5)])
    train, validation, _ = ClientPools(1, 0, inside=0.2)(partition, np.random.default_rng(0))
    assert sorted(train.sizes) == [0, 8, 8, 8, 8]
    assert sorted(validation.sizes) == [2, 2, 2, 2, 10]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InsideClients(validation=1.0), "validation=1.0; allowed: a share from 0 to below 1"),
        (lambda: InsideClients(test=-0.1), "test=-0.1"),
        (lambda: InsideClients(test="much"), "test='much'"),
        (lambda: InsideClients(0.5, 0.5), r"validation \+ test = 1"),
        (lambda: ClientPools(validation=1.5), "validation=1.5; allowed: a share below 1, or a whole number"),
        (lambda: ClientPools(inside=1), "inside=1"),
        (lambda: split_from_dict({"kind": "insider"}), "did you mean 'inside'"),
        (lambda: split_from_dict({"kind": "pools", "tests": 1}), "unknown key of split 'pools' 'tests'"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_somebody_must_train():
    with pytest.raises(InputError, match="2 validation and 1 test clients leave none of 3 to train"):
        ClientPools(2, 1)(Split.from_lists([[0], [1], [2]]), np.random.default_rng(0))


def test_studies_can_describe_splits():
    assert split_from_dict({"kind": "pools", "validation": 100}) == ClientPools(validation=100)
