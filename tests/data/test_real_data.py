"""The loaders on the real files: shapes, class counts and clients are those that their notes state."""

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.data import load, profile
from fedhpo.data.sets import images

pytestmark = [pytest.mark.data, pytest.mark.usefixtures("decoded")]

ALL = {"kind": "inside", "validation": 0.0, "test": 0.0}


@pytest.mark.parametrize(
    ("name", "features", "counts"),
    [
        ("eeg_eye_state", 14, [8257, 6723]),
        ("electricity", 8, [26075, 19237]),
        ("heart_statlog", 13, [150, 120]),
        ("oil_spill", 49, [896, 41]),
        ("pollen", 5, [1924, 1924]),
        ("sonar", 60, [111, 97]),
        ("pc3", 37, [1403, 160]),
    ],
)
def test_tables(name, features, counts):
    data = load(name, split=ALL)
    assert data.clients == 3
    assert data.shape == (features,)
    assert np.bincount(data.y).tolist() == counts
    assert len(data.train.indices) == sum(counts)


def test_cifar10_and_its_cache(decoded, monkeypatch):
    data = load("cifar10", split=ALL)
    assert data.x.shape == (60000, 3, 32, 32)
    assert data.x.dtype == np.uint8
    assert len(data.train.indices) == 50000
    assert data.train.sizes.tolist() == [100] * 500
    assert np.bincount(data.y[data.train.indices]).tolist() == [5000] * 10
    part = data.x[data.train.indices[:10000]] / np.float32(255)
    assert part.mean(axis=(0, 2, 3)) == pytest.approx([0.491, 0.482, 0.447], abs=0.005)
    assert part.std(axis=(0, 2, 3)) == pytest.approx([0.245, 0.243, 0.261], abs=0.005)
    assert (part.mean(axis=(0, 2, 3)) * 255 - data.mean.ravel()) / data.std.ravel() == pytest.approx(
        np.zeros(3), abs=0.02
    )
    (entry,) = decoded.glob("cifar10-*")
    written = (entry / "x.npy").stat().st_mtime_ns
    monkeypatch.setattr(images, "_cifar10", None)  # decoding again would fail
    again = load("cifar10", split=ALL)
    assert isinstance(again.x, np.memmap)
    assert (entry / "x.npy").stat().st_mtime_ns == written


def test_femnist():
    data = load("femnist", split=ALL)
    assert (data.clients, data.classes, data.shape) == (105, 62, (1, 28, 28))
    assert len(data.train.indices) == 14708 + 1685
    assert (data.train.sizes.min(), np.median(data.train.sizes), data.train.sizes.max()) == (5, 169, 184)
    assert (data.train.sizes >= 100).sum() == 99
    assert data.client_names[0].startswith("f")
    assert profile(data).classes_held.max() <= 62
    assert load("femnist", split=ALL, pool="all").clients == 184


def test_femnist_in_the_parts_that_it_comes_in():
    data = load("femnist", pool="all", split={"kind": "given"}, shrink=2)
    assert (len(data.train_clients), len(data.validation_clients), len(data.test_clients)) == (105, 79, 0)
    assert (len(data.train.indices), len(data.validation.indices)) == (14708 + 1685, 2403)
    full = load("femnist", pool="all", split=ALL)
    squares = full.x[7, 0, :2, :2].astype(float)
    assert data.x[7, 0, 0, 0] == np.floor(squares.mean() + 0.5)
    assert data.shape == (1, 14, 14)
    with pytest.raises(InputError, match="femnist comes in no parts"):
        load("femnist", split={"kind": "given"})
    with pytest.raises(InputError, match="shrink=3; allowed: a divisor of 28"):
        load("femnist", split=ALL, shrink=3)


def test_mnist_by_writer():
    data = load("mnist", split=ALL)
    assert (data.clients, data.shape, data.classes) == (539, (1, 28, 28), 10)
    assert len(data.train.indices) == 60000
    assert (data.train.sizes.min(), np.median(data.train.sizes), data.train.sizes.max()) == (19, 116, 131)
    both = load("mnist", split=ALL, pool="all")
    assert (both.clients, len(both.train.indices)) == (539 + 297, 70000)


def test_fashion_mnist():
    data = load("fashion_mnist", split=ALL)
    assert (data.clients, data.shape) == (100, (1, 28, 28))
    assert np.bincount(data.y[data.train.indices]).tolist() == [6000] * 10
    assert np.bincount(load("fashion_mnist", pool="all").y).tolist() == [7000] * 10


def test_pacs():
    data = load("pacs", split=ALL)
    assert data.client_names == ("art_painting", "cartoon", "photo", "sketch")
    assert data.train.sizes.tolist() == [2048, 2344, 1670, 3929]
    assert (data.shape, data.classes) == ((3, 32, 32), 7)


def test_shakespeare():
    data = load("shakespeare", split=ALL)
    assert (data.clients, data.shape, data.classes, data.task) == (1129, (80,), 75, "language")
    assert data.x.max() == 74
    assert len(np.unique(data.x)) == 75
    # 55 roles are too short for a window, and have a padded one
    assert len(data.x) == 52893 + 55
    every_other = load("shakespeare", split=ALL, stride=40, samples_per_client=5)
    assert every_other.train.sizes.max() == 5
    assert every_other.clients == 1129


def test_shakespeare_asked_after_every_character():
    data = load("shakespeare", split=ALL, window=12, per_token=True)
    assert (data.shape, data.y.shape[1], data.clients) == ((12,), 12, 1129)
    padded = data.x == 0
    assert ((data.y == -100) == padded).all()
    assert (data.y[:, :-1] == data.x[:, 1:])[~padded[:, :-1]].all()
    # Windows follow each other: the last answer of one is the first character of the next.
    assert data.y[0, -1] == data.x[1, 0]


def test_stackexchange():
    data = load("stackexchange", split=ALL)
    assert (data.shape, data.y.shape[1], data.classes) == ((25,), 25, 10002)
    assert data.clients == 1340
    assert data.x.max() == 10001
    padded = data.x == 0
    assert ((data.y == -100) == padded).all()
    # where there is a next word in the piece, it is the label
    assert (data.y[:, :-1] == data.x[:, 1:])[~padded[:, 1:]].all()
