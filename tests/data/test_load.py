import builtins
import gzip
import io
import json

import numpy as np
import pytest

from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.data import DATASETS, IID, Dirichlet, InsideClients, load


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A data directory with tiny files in the real ones' format."""
    monkeypatch.setenv("FEDHPO_DATA", str(tmp_path))
    monkeypatch.setenv("FEDHPO_CACHE", str(tmp_path / "cache"))
    for folder in ("images", "text", "tabular"):
        (tmp_path / folder).mkdir()
    return tmp_path


def write_json(file, clients):
    with gzip.open(file, "wt", encoding="utf-8") as out:
        json.dump({"clients": clients}, out)


def test_digits_are_embedded(monkeypatch):
    monkeypatch.delenv("FEDHPO_DATA", raising=False)
    flat, image = load("digits"), load("digits", image=True)
    assert (flat.clients, flat.shape, flat.classes, len(flat.x)) == (50, (64,), 10, 1797)
    assert image.shape == (1, 8, 8)
    assert (image.x.reshape(-1, 64) == flat.x).all()
    assert (flat.x.min(), flat.x.max()) == (0.0, 1.0)


def held(data):
    splits = (data.train, data.validation, data.test)
    return {int(row) for split in splits for row in split.indices}


def test_parts_share_no_row_whatever_the_seed():
    clients = held(load("digits", clients=10, part=(0.0, 0.6)))
    proxy = held(load("digits", clients=3, seed=5, part=[0.6, 1.0]))
    assert not clients & proxy
    assert len(clients | proxy) == 1797
    assert abs(len(clients) - 0.6 * 1797) <= 1
    for bad in ((0.6, 0.2), (0.0,), "half", (0.0, 1.5), (0.5, 0.5)):
        with pytest.raises(InputError, match="part="):
            load("digits", part=bad)
    with pytest.raises(InputError, match="holds none"):
        load("digits", part=(0.0, 1e-9))


def test_synthetic_labels_come_from_one_model_a_client():
    # alpha = 0 and iid: one linear model for all, which the data must then be separable by.
    data = load("synthetic", clients=20, samples=100, iid=True, alpha=0, beta=0, dimension=5, classes=3)
    from sklearn.linear_model import LogisticRegression

    accuracy = LogisticRegression(C=1e4, max_iter=2000).fit(data.x, data.y).score(data.x, data.y)
    assert accuracy > 0.98
    # v_k = B_k = 0, variances j^-1.2
    assert data.x.mean(axis=0) == pytest.approx(np.zeros(5), abs=0.1)
    assert data.x.var(axis=0) == pytest.approx(np.arange(1, 6) ** -1.2, rel=0.1)


def test_synthetic_clients_differ_with_beta():
    def spread(beta):
        data = load("synthetic", clients=300, samples=50, beta=beta, split={"kind": "inside", "test": 0.0})
        means = np.array([data.x[data.train.rows(c)].mean() for c in range(300)])
        return means.std()

    # Client means are N(B_k, 1/60) up to sampling noise.
    assert spread(0.0) == pytest.approx((1 / 60) ** 0.5, rel=0.25)
    assert spread(2.0) == pytest.approx(2.0, rel=0.15)


def test_synthetic_sizes():
    everything = {"kind": "inside", "validation": 0.0, "test": 0.0}
    sizes = load("synthetic", clients=200, split=everything, dimension=2).train.sizes
    assert sizes.min() >= 50
    assert np.median(sizes) == pytest.approx(np.exp(4) + 50, rel=0.25)
    bounded = load("synthetic", clients=200, samples=(60, 80), split=everything).train.sizes
    assert (bounded.min(), bounded.max()) == (60, 80)
    fixed = load("synthetic", clients=200, samples=7, split=everything).train.sizes
    assert fixed.tolist() == [7] * 200


def test_the_seed_repeats_everything():
    one, two, other = (load("synthetic", clients=5, samples=10, seed=s) for s in (1, 1, 2))
    assert (one.x == two.x).all()
    assert (one.train.indices == two.train.indices).all()
    assert (one.x != other.x).any()


def test_partition_and_split_as_objects_or_as_in_a_study():
    one = load("digits", clients=5, partition={"kind": "dirichlet", "alpha": 0.3}, split={"kind": "inside"})
    two = load("digits", partition=Dirichlet(5, 0.3), split=InsideClients())
    assert (one.train.indices == two.train.indices).all()
    assert load("digits", partition={"kind": "shards"}).clients == 50
    assert load("synthetic", clients=6, samples=10, partition={"kind": "iid"}).clients == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load("cifar"), "unknown data set 'cifar' .did you mean 'cifar10'"),
        (
            lambda: load("digits", imag=True),
            "unknown option of data set 'digits' 'imag' .did you mean 'image'",
        ),
        (lambda: load("sonar", scaling=None), "known: scale"),
        (lambda: load("digits", clients=0), "clients must be a whole number of at least 1, not 0"),
        (lambda: load("digits", seed=-1), "seed must be a whole number of at least 0, not -1"),
        (lambda: load("digits", clients=3, partition=IID(4)), "clients=3, but partition has clients=4"),
        (lambda: load("digits", partition={"kind": "natural"}), "this data has none"),
        (lambda: load("synthetic", samples=0), "samples must be a whole number of at least 1, not 0"),
        (lambda: load("synthetic", samples=(5, 2)), r"samples=\(5, 2\)"),
        (lambda: load("synthetic", alpha=-1), "alpha=-1"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_missing_files_are_named(monkeypatch, tmp_path):
    monkeypatch.delenv("FEDHPO_DATA", raising=False)
    with pytest.raises(InputError, match=r"images/cifar10_jpeg.npz is needed: set .* FEDHPO_DATA"):
        load("cifar10")
    with pytest.raises(InputError, match=r"sonar.csv.gz is missing \(path is"):
        load("sonar", path=tmp_path)
    monkeypatch.setenv("FEDHPO_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"pacs_32.npz is missing \(FEDHPO_DATA is"):
        load("pacs")


def test_every_set_says_what_it_is():
    assert len(DATASETS) == 17
    assert all(0 < len(d.description) < 100 and "\n" not in d.description for d in DATASETS.values())
    options = {"window": 80, "stride": None, "per_token": False, "samples_per_client": None}
    assert DATASETS["shakespeare"].options == options


def test_tables_are_scaled_by_training_rows(directory):
    rows = "".join(f"{i},{1000 + i % 7},5,{int(i >= 50)}\n" for i in range(100))
    (directory / "tabular" / "sonar.csv.gz").write_bytes(gzip.compress(("a,b,c,y\n" + rows).encode()))
    data = load("sonar", clients=2)
    x = data.x[data.train.indices].astype(np.float64)
    assert data.mean == pytest.approx(x.mean(axis=0))
    assert data.std[:2] == pytest.approx(x.std(axis=0)[:2])
    assert data.std[2] == 1.0  # the constant column
    assert np.bincount(
        data.y[np.concatenate([s.rows(0) for s in (data.train, data.validation, data.test)])]
    ).tolist() == [25, 25]
    ranged = load("sonar", clients=2, scale="minmax")
    scaled = ((ranged.x - ranged.mean) / ranged.std)[ranged.train.indices]
    assert (scaled[:, :2].min(), scaled[:, :2].max()) == (0.0, 1.0)
    assert load("sonar", scale=None).mean is None
    with pytest.raises(InputError, match="scale='max'; allowed: 'standard', 'minmax', None"):
        load("sonar", scale="max")


def test_shakespeare_windows(directory):
    long = "a" * 80 + "bc" + "d" * 78 + "e"  # with stride 80: a..a -> b, then bcd..d -> e
    write_json(
        directory / "text" / "shakespeare_by_role.json.gz",
        {"P__LONG": [long[:100], long[101:]], "P__ONCE": ["Too few speeches."], "P__SHORT": ["Ay", "No"]},
    )
    data = load("shakespeare")
    assert data.client_names == ("P__LONG", "P__SHORT")
    assert (data.x.dtype, data.shape, data.classes, data.is_tokens) == (np.uint8, (80,), 75, True)
    from fedhpo.data.sets.text import CHARACTERS

    def read(tokens):
        return "".join("_" if t == 0 else CHARACTERS[t - 1] for t in np.atleast_1d(tokens))

    text = long[:100] + "\n" + long[101:]
    assert [read(x) for x in data.x[:2]] == [text[:80], text[80:160]]
    assert read(data.y) == "b" + "e" + "o"
    assert read(data.x[2]) == "_" * 76 + "Ay\nN"
    assert len(load("shakespeare", stride=1).x) == len(text) - 80 + 1
    few = load("shakespeare", stride=1, samples_per_client=10)
    assert [len(s.indices) for s in (few.train, few.validation, few.test)] == [9, 1, 1]


def test_stackexchange_sequences(directory):
    words = [f"w{i}" for i in range(30)]
    write_json(
        directory / "text" / "stackexchange_by_user.json.gz",
        {
            "beer:1": [["2014-01-01", 3, 1, " ".join(words)], ["2014-01-02", 0, 2, "Word"]],
            "beer:2": [["2014-01-01", 3, 1, "w0, W0 w1"]],
            "beer:3": [["2014-01-01", 3, 1, "alone"]],
        },
    )
    data = load("stackexchange", vocabulary=2)
    # w0 occurs 3 times, w1 twice; everything else, the comma too, is unknown (1).
    assert data.client_names == ("beer:1", "beer:2")
    assert (data.x.dtype, data.y.shape, data.classes) == (np.int16, (3, 25), 4)
    assert data.x[0].tolist() == [2, 3] + [1] * 23
    assert data.y[0].tolist() == [3] + [1] * 24
    assert data.x[1].tolist() == [1] * 4 + [0] * 21
    assert data.y[1].tolist() == [1] * 4 + [-100] * 21
    assert data.x[2, :4].tolist() == [2, 1, 2, 0]
    assert data.y[2, :4].tolist() == [1, 2, 3, -100]


def jpegs(colours):
    from PIL import Image

    files = []
    for colour in colours:
        out = io.BytesIO()
        Image.new("RGB", (32, 32), colour).save(out, "JPEG", quality=95)
        files.append(out.getvalue())
    return np.frombuffer(b"".join(files), np.uint8), np.cumsum([0] + [len(f) for f in files])


def test_cifar10_is_decoded_channels_first(directory):
    pytest.importorskip("PIL")
    train, off_train = jpegs([(200, 0, 0), (0, 0, 200)] * 10)
    test, off_test = jpegs([(0, 200, 0)])
    np.savez(
        directory / "images" / "cifar10_jpeg.npz",
        jpeg_train=train,
        off_train=off_train,
        y_train=np.tile(np.uint8([0, 2]), 10),
        jpeg_test=test,
        off_test=off_test,
        y_test=np.uint8([1]),
    )
    data = load("cifar10", clients=2)
    assert isinstance(data.x, np.memmap)
    assert (data.x.dtype, data.x.shape) == (np.uint8, (21, 3, 32, 32))
    # The strongest channel is the label: red 0, green 1, blue 2.
    assert (data.x.mean(axis=(2, 3)).argmax(axis=1) == data.y).all()
    held = np.concatenate([s.indices for s in (data.train, data.validation, data.test)])
    assert sorted(held) == list(range(20))
    both = load("cifar10", clients=2, pool="all")
    assert sum(len(s.indices) for s in (both.train, both.validation, both.test)) == 21
    with pytest.raises(InputError, match="pool='test'; allowed: 'train', 'all'"):
        load("cifar10", pool="test")


def test_pillow_is_asked_for(directory, monkeypatch):
    np.savez(directory / "images" / "cifar10_jpeg.npz", y_train=np.zeros(1))
    real = builtins.__import__

    def no_pillow(name, *args, **kwargs):
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pillow)
    with pytest.raises(MissingExtraError, match=r"\[images\]"):
        load("cifar10")


def test_writers_are_clients(directory):
    np.savez(
        directory / "images" / "mnist_by_writer.npz",
        x_train=np.zeros((6, 28, 28), np.uint8),
        y_train=np.arange(6, dtype=np.uint8),
        writer_train=np.int32([900, 7, 900, 7, 7, 30]),
        x_test=np.zeros((2, 28, 28), np.uint8),
        y_test=np.uint8([8, 9]),
        writer_test=np.int32([8, 8]),
    )
    data = load("mnist")
    assert data.client_names == ("7", "30", "900")
    assert data.y[np.sort(data.train.rows(0))].tolist() == [1, 3, 4]
    assert load("mnist", pool="all").client_names == ("7", "8", "30", "900")
    assert load("mnist", clients=2, seed=1).clients == 2
    assert load("mnist", partition={"kind": "iid"}).clients == 3
