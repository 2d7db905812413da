"""Data set objects of other packages to clients: stand-ins, and the packages where installed."""

from pathlib import Path

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data import IID


class Rows:
    """A `datasets.Dataset` as far as it is used: columns, slices, features."""

    def __init__(self, columns, features=None):
        self.columns, self.features = columns, features or {}
        self.column_names = list(columns)
        self.shape = (len(self), len(columns))  # theirs has one too

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, rows):
        return {key: values[rows] for key, values in self.columns.items()}

    def select_columns(self, keys):
        return Rows({key: self.columns[key] for key in keys}, self.features)


class Classes:
    def __init__(self, number):
        self.num_classes = number


class Partitions:
    """A partitioner of flwr_datasets, or a FederatedDataset with one."""

    def __init__(self, sets, names=None):
        self.sets, self.num_partitions = sets, len(sets)
        self.partition_id_to_natural_id = names or {}

    def load_partition(self, number, split=None):
        return self.sets[number]


class Federated:
    def __init__(self, **partitioners):
        self.partitioners = partitioners

    def load_partition(self, number, split):
        return self.partitioners[split].load_partition(number)


def table(rows=40, **more):
    return Rows(
        {
            "age": [float(i) for i in range(rows)],
            "dose": [2 * i for i in range(rows)],
            "site": ["north", "south"] * (rows // 2),
            "label": [i % 3 for i in range(rows)],
            **more,
        },
        {"label": Classes(5)},
    )


def test_a_columns_values_are_the_clients():
    data = fh.from_dataset(table(), by="site")
    assert data.client_names == ("north", "south")
    north = sorted(int(i) for part in (data.train, data.validation, data.test) for i in part.rows(0))
    assert north == list(range(0, 40, 2))
    assert np.array_equal(data.x, [[i, 2 * i] for i in range(40)])  # every column that is left
    assert (data.x.dtype, data.classes, data.task) == (np.float32, 5, "classification")  # as its features say


def test_rows_at_random_and_by_a_partition():
    numbers = Rows({"v": list(range(40)), "label": [i % 2 for i in range(40)]})
    assert fh.from_dataset(numbers, clients=4).train.sizes.tolist() == [8, 8, 8, 8]
    skewed = fh.from_dataset(numbers, clients=4, partition={"kind": "dirichlet", "alpha": 0.1}, seed=1)
    assert len(set(skewed.train.sizes.tolist())) > 1
    same = fh.from_dataset(numbers, partition=IID(4))
    assert np.array_equal(same.train.indices, fh.from_dataset(numbers, clients=4).train.indices)
    assert same.x.shape == (40, 1)


def test_partitions_of_flower_are_clients():
    parts = Partitions([table(10), table(20)], {0: "x", 1: "y"})
    for given, more in (
        (parts, {}),
        (Federated(train=parts), {}),
        (Federated(train=parts, test=parts), {"part": "test"}),
    ):
        data = fh.from_dataset(given, x=["age", "dose"], **more)
        assert data.client_names == ("x", "y")
        assert (data.train.sizes + data.validation.sizes + data.test.sizes).tolist() == [10, 20]
        assert data.classes == 5


def test_pictures_become_channels_rows_columns_in_bytes():
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 4, 6, 3)).astype(np.uint8)
    pairs = [(image.fromarray(one), i % 2) for i, one in enumerate(pixels)]  # as torchvision gives them
    data = fh.from_dataset(pairs, clients=2)
    assert data.x.dtype == np.uint8
    assert np.array_equal(data.x, pixels.transpose(0, 3, 1, 2))
    train = data.x[data.train.indices].astype(np.float64)
    assert np.allclose(data.mean.ravel(), train.mean((0, 2, 3)), rtol=1e-6)
    assert np.allclose(data.std.ravel(), train.std((0, 2, 3)), rtol=1e-6)
    grey = fh.from_dataset(pairs, clients=2, transform=lambda one: one.convert("L").resize((2, 2)))
    assert grey.shape == (1, 2, 2)
    rows = Rows(
        {"id": list(range(20)), "img": [one for one, _ in pairs], "label": [i % 2 for i in range(20)]}
    )
    assert np.array_equal(fh.from_dataset(rows, clients=2).x, data.x)  # the pictures, not the number


def test_texts_with_a_tokenizer():
    def tokenizer(texts, truncation, max_length):
        assert truncation
        ids = [[len(word) for word in text.split()][:max_length] for text in texts]
        return {"input_ids": ids, "attention_mask": [[1] * len(one) for one in ids]}

    rows = Rows({"text": ["to be or not", "be"] * 10, "label": ["yes", "no"] * 10})
    data = fh.from_dataset(rows, clients=2, tokenizer=tokenizer, max_length=3)
    assert data.x["input_ids"][:2].tolist() == [[2, 2, 2], [2, 0, 0]]
    assert data.x["attention_mask"][:2].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert data.y[:2].tolist() == [1, 0]  # classes by alphabet
    assert (
        fh.from_dataset(Rows({"labels": [0, 1] * 5, "input_ids": [[1, 2], [3, 4]] * 5}), clients=2).clients
        == 2
    )


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (table(), {}, "who holds what"),
        (table(), {"clients": 2}, "column 'site' holds texts: give tokenizer"),
        (table(), {"by": "site", "y": "lable"}, "did you mean 'label'"),
        (table(), {"by": "site", "x": "agee"}, "did you mean 'age'"),
        (Rows({"a": [1.0, 2.0]}), {"clients": 1}, "which column is the label"),
        ({"train": table()}, {"clients": 2}, "which split is it? Allowed: 'train'"),
        (table(), {"clients": 2, "part": "train"}, "has no splits"),
        (Partitions([table()]), {"clients": 2}, "the object's partitions are the clients"),
        (Federated(train=Partitions([table()]), test=None), {}, "partitioners for 'train', 'test'"),
        ([(np.zeros(2), 0), (np.zeros(3), 1)], {"clients": 1}, "different shapes"),
        ([np.zeros(2)], {"clients": 1}, "item 0 is one ndarray"),
        (np.zeros((4, 2)), {"clients": 1}, "found one ndarray"),
        ("mnist", {"clients": 1}, "found 'mnist'"),
        (Rows({"label": []}), {"clients": 1}, "no row"),
    ],
)
def test_what_is_wrong_is_said(given, options, said):
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        fh.from_dataset(given, **options)


def test_from_clients_names_the_right_function():
    with pytest.raises(InputError, match=r"fedhpo.from_dataset"):
        fh.from_clients(table())


def test_the_packages_themselves():
    datasets = pytest.importorskip("datasets")
    partitioners = pytest.importorskip("flwr_datasets.partitioner")
    columns = {
        "v": [float(i) for i in range(40)],
        "who": ["a", "b"] * 20,
        "label": [i % 2 for i in range(40)],
    }
    rows = datasets.Dataset.from_dict(columns)
    by = fh.from_dataset(rows, by="who")
    parts = partitioners.NaturalIdPartitioner("who")
    parts.dataset = rows
    dealt = fh.from_dataset(parts, x="v")
    assert dealt.client_names == by.client_names == ("a", "b")
    assert dealt.x[dealt.train.rows(0)].ravel().tolist() == by.x[by.train.rows(0)].ravel().tolist()


def test_the_code_of_the_page(tmp_path, monkeypatch):
    pytest.importorskip("flwr_datasets")
    root = Path(__file__).parents[2]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(root / "docs" / "_site"))
    assert __import__("examples").run_page(root / "docs/data.md", "docs/data.md") == 2
