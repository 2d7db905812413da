import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from fedhpo.core.errors import InputError
from fedhpo.data import IID, ClientPools, Dirichlet, Natural, from_arrays, from_clients


def pair(rows, width=3, label=0):
    return np.full((rows, width), label, dtype=np.float64), np.full(rows, label)


class Items(Dataset):
    """A data set that gives a tensor and a plain number, as torchvision's do."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        if i >= self.rows:
            raise IndexError
        return torch.full((2,), float(i)), i % 3


def test_pairs_are_split_inside_clients():
    data = from_clients([pair(20, label=0), pair(10, label=1)])
    assert data.x.dtype == np.float32
    assert data.y.dtype == np.int64
    assert (data.task, data.classes) == ("classification", 2)
    assert data.train.sizes.tolist() == [16, 8]
    assert data.validation.sizes.tolist() == data.test.sizes.tolist() == [2, 1]
    for split in (data.train, data.validation, data.test):
        assert (data.y[split.indices] == split.owners).all()
        assert (data.x[split.indices, 0] == split.owners).all()


def test_the_seed_decides_the_split():
    clients = [pair(20)]
    same = [from_clients(clients, seed=s).train.indices.tolist() for s in (1, 1, 2)]
    assert same[0] == same[1] != same[2]


def test_tensors_and_data_sets_give_what_arrays_give():
    x, y = torch.arange(20.0).reshape(10, 2), torch.arange(10) % 3
    expected = from_clients([(x.numpy(), y.numpy())])
    for entry in ((x, y), TensorDataset(x, y)):
        data = from_clients([entry])
        assert (data.x == expected.x).all()
        assert (data.y == expected.y).all()
    items = from_clients({"one": Items(10)})
    assert items.x[:, 1].tolist() == list(range(10))
    assert items.y.tolist() == y.tolist()
    assert items.client_names == ("one",)


def test_given_splits_are_taken_as_they_are():
    data = from_clients(
        {
            "a": {"train": pair(3, label=0), "validation": pair(2, label=1)},
            "b": {"train": pair(1, label=2), "test": pair(4, label=3)},
            "c": {"validation": pair(5, label=4)},
        }
    )
    assert data.train.sizes.tolist() == [3, 1, 0]
    assert data.validation.sizes.tolist() == [2, 0, 5]
    assert data.test.sizes.tolist() == [0, 4, 0]
    assert data.y[data.validation.rows(2)].tolist() == [4] * 5
    assert data.y[data.train.rows(1)].tolist() == [2]


def test_floats_are_regression_and_whole_sequences_language():
    data = from_clients([(np.zeros((5, 2)), np.linspace(0, 1, 5)[:, None])])
    assert (data.task, data.classes, data.y.dtype, data.y.shape) == ("regression", None, np.float32, (5,))
    tokens = np.array([[1, 2, 9], [3, 0, 0]])
    data = from_clients([(tokens, np.array([[2, 9, 4], [-100, -100, -100]]))])
    assert (data.task, data.classes, data.is_tokens) == ("language", 10, True)


def test_the_task_given_decides():
    assert from_clients([(np.zeros((3, 1)), np.arange(3))], task="regression").y.dtype == np.float32
    assert from_clients([(np.zeros((3, 1)), np.array([0.0, 1.0, 2.0]))], task="classification").classes == 3
    with pytest.raises(InputError, match="y has fractions"):
        from_clients([(np.zeros((2, 1)), np.array([0.5, 1.0]))], task="classification")


def test_small_types_stay_small():
    data = from_clients(
        [(np.zeros((4, 1, 8, 8), np.uint8), np.zeros(4, np.uint8))], mean=[[[1.0]]], std=[[[2]]]
    )
    assert data.x.dtype == np.uint8
    assert data.y.dtype == np.int64
    assert data.mean.dtype == data.std.dtype == np.float32


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ([], "clients is empty"),
        ({"a": pair(3), "b": pair(3, width=4)}, r"x of client 'a' has \(3,\), of client 'b' \(4,\)"),
        (
            [pair(3), (np.zeros((2, 3), np.uint8), np.zeros(2, int))],
            "x of client 0 is float32, of client 1 uint8",
        ),
        ([pair(3), (np.zeros((2, 3)), np.zeros(2))], "y of client 0 is int64, of client 1 float64"),
        ([pair(3), pair(0)], "client 1: no rows"),
        ([pair(3), {"train": pair(3)}], "client 1 has given splits, client 0 has not"),
        ({"a": {"train": pair(0)}}, "client 'a', train: no rows"),
        ({"a": {"trian": pair(1)}}, "unknown split of client 'a' 'trian'.*'train'"),
        ([(np.zeros((3, 1)), np.zeros(2, int))], "client 0: x has 3 rows, y 2"),
        ([7], r"client 0: found 7; allowed: a pair"),
        ([[1, 2, 3]], "client 0: item 0 of the data set is 1; allowed: a pair"),
        ([(np.array(["a", "b"]), np.zeros(2, int))], "client 0: x is <U1; allowed: numbers"),
        ({"a": pair(3), "b": (np.full((2, 3), 1e300), np.zeros(2, int))}, "client 'b'.*infinite"),
        ([(np.zeros((3, 1)), np.array([0, 1, -1]))], "client 0.*y is not in"),
    ],
)
def test_errors_name_the_client(clients, message):
    with pytest.raises(InputError, match=message):
        from_clients(clients)


def test_arrays_with_a_partition_and_pools():
    y = np.arange(100) % 5
    data = from_arrays(np.arange(100.0)[:, None], y, IID(10), split=ClientPools(validation=3, test=2))
    assert len(data.train_clients) == 5
    assert len(data.validation_clients) == 3
    assert len(data.test_clients) == 2
    everything = np.concatenate([s.indices for s in (data.train, data.validation, data.test)])
    assert sorted(everything) == list(range(100))


def test_the_split_does_not_change_who_holds_what():
    x, y = np.zeros((100, 1)), np.arange(100) % 5
    one = from_arrays(x, y, Dirichlet(4, 0.5), seed=3)
    two = from_arrays(x, y, Dirichlet(4, 0.5), seed=3, split=ClientPools(validation=1, test=0))
    for client in range(4):
        rows = [
            sorted(np.concatenate([s.rows(client) for s in (d.train, d.validation, d.test)]))
            for d in (one, two)
        ]
        assert rows[0] == rows[1]


def test_groups_are_the_clients_of_natural():
    groups = np.array([2, 0, 2, 0, 2])
    data = from_arrays(np.zeros((5, 1)), np.zeros(5, int), Natural(), groups=groups)
    assert data.clients == 2
    held = [np.concatenate([s.rows(c) for s in (data.train, data.validation, data.test)]) for c in (0, 1)]
    assert [sorted(rows) for rows in held] == [[1, 3], [0, 2, 4]]


def test_regression_cannot_be_dealt_by_class():
    with pytest.raises(InputError, match="whole-number label"):
        from_arrays(np.zeros((5, 1)), np.zeros(5), Dirichlet(2, 1.0))
