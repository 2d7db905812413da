"""The directory of FEDHPO_DATA: what is said of it, and files made from the published ones."""

import gzip
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.data.load import DATASETS
from fedhpo.data.sets.convert import convert
from fedhpo.data.sets.files import FILES, state

RNG = np.random.default_rng(0)


def idx(path, array, kind=8):
    head = struct.pack(f">HBB{array.ndim}i", 0, kind, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(head + array.astype(">i4" if kind == 12 else np.uint8).tobytes()))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDHPO_CACHE", str(tmp_path / "cache"))


def test_every_set_with_a_file_is_listed():
    assert set(FILES) == set(DATASETS) - {"csv", "digits", "synthetic"}


def test_the_page_has_each_file_and_its_digest():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    for name, file in FILES.items():
        row = f"| `{name}` | `{file.path}` | {file.origin} | {file.licence} | `{file.sha256[:12]}` |"
        assert row in page


@pytest.mark.data
def test_the_digests_are_those_of_the_files_there(capsys):
    assert main(["data", "check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["directory"] == os.environ["FEDHPO_DATA"]
    assert set(found["sets"].values()) == {"ours"}


def test_check_says_what_is_missing_and_what_is_another_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FEDHPO_DATA", str(tmp_path))
    assert main(["data", "check"]) == 0
    assert capsys.readouterr().out.count("missing") == len(FILES)
    sonar = tmp_path / FILES["sonar"].path
    sonar.parent.mkdir()
    sonar.write_bytes(b"x" * FILES["sonar"].bytes)  # the right size, other bytes
    assert state("sonar", tmp_path) == "other"
    assert main(["data", "check"]) == 1
    assert "figures may differ" in capsys.readouterr().out
    monkeypatch.delenv("FEDHPO_DATA")
    assert main(["data", "check"]) == 2


def test_images_in_idx_files(tmp_path, capsys):
    images, labels = RNG.integers(0, 256, (2, 110, 28, 28)), RNG.integers(0, 10, (2, 110))
    writers = np.stack([labels, np.zeros_like(labels), np.arange(220).reshape(2, 110) // 10], axis=2)
    for part, stem, short in ((0, "train", "train"), (1, "t10k", "test")):
        idx(tmp_path / f"{stem}-images-idx3-ubyte.gz", images[part])
        idx(tmp_path / f"{stem}-labels-idx1-ubyte.gz", labels[part])
        idx(tmp_path / f"qmnist-{short}-labels-idx2-int.gz", writers[part], kind=12)
    target = tmp_path / "data"
    assert main(["data", "convert", "fashion_mnist", str(tmp_path), "--directory", str(target)]) == 0
    data = fh.load("fashion_mnist", path=target, pool="all", clients=4)
    assert np.array_equal(data.x[:, 0], images.reshape(220, 28, 28))
    assert np.array_equal(data.y, labels.ravel())
    convert("mnist", tmp_path, target)
    by_writer = fh.load("mnist", path=target, pool="all")
    assert (by_writer.clients, by_writer.client_names[0]) == (22, "0")
    (tmp_path / "qmnist-test-labels-idx2-int.gz").unlink()
    with pytest.raises(InputError, match="qmnist-test-labels-idx2-int is missing"):
        convert("mnist", tmp_path, target)


def test_cifar10s_binary_version_without_loss(tmp_path):
    pytest.importorskip("PIL")
    rows = RNG.integers(0, 256, (30, 3073)).astype(np.uint8)
    rows[:, 0] %= 10
    for number in range(2):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(rows[10 * number : 10 * number + 10].tobytes())
    (tmp_path / "test_batch.bin").write_bytes(rows[20:].tobytes())
    convert("cifar10", tmp_path, tmp_path)
    data = fh.load("cifar10", path=tmp_path, pool="all", clients=3)
    assert np.array_equal(data.x, rows[:, 1:].reshape(-1, 3, 32, 32))
    assert np.array_equal(data.y, rows[:, 0])


def test_leafs_json(tmp_path):
    for part, users in (("train", {"w1": 6, "w2": 4}), ("test", {"w1": 2, "w3": 3})):
        (tmp_path / part).mkdir()
        own = {
            who: {"x": (RNG.integers(0, 256, (n, 784)) / 255).tolist(), "y": [61] * n}
            for who, n in users.items()
        }
        (tmp_path / part / "all.json").write_text(json.dumps({"user_data": own}))
    convert("femnist", tmp_path, tmp_path)
    assert fh.load("femnist", path=tmp_path).client_names == ("w1", "w2")  # w3 has no training part
    assert fh.load("femnist", path=tmp_path, pool="all").clients == 3


def test_plays_in_xml(tmp_path):
    speech = "<SPEECH><SPEAKER>HAMLET</SPEAKER><LINE>To be,</LINE><LINE>or <STAGEDIR/>not</LINE></SPEECH>"
    (tmp_path / "hamlet_moby.xml").write_text(f"<PLAY><TITLE>Hamlet</TITLE>{speech * 2}</PLAY>")
    file = convert("shakespeare", tmp_path, tmp_path)
    made = json.loads(gzip.decompress(file.read_bytes()))
    assert made["clients"] == {"hamlet__HAMLET": ["To be,\nor not"] * 2}
    assert fh.load("shakespeare", path=tmp_path).client_names == ("hamlet__HAMLET",)


def test_tables_in_arff(tmp_path):
    rows = [f"{i},{i / 8},{'Mine' if i % 3 else 'Rock'}" for i in range(30)]
    head = [
        "% sonar",
        "@RELATION x",
        "@attribute 'a b' real",
        "@attribute c numeric",
        "@attribute k {Mine,Rock}",
    ]
    (tmp_path / "s.arff").write_text("\n".join([*head, "@data", *rows]))
    convert("sonar", tmp_path / "s.arff", tmp_path)
    data = fh.load("sonar", path=tmp_path)
    assert data.x[8].tolist() == [8, 1]
    assert data.y[:3].tolist() == [1, 0, 0]  # the commoner class is 0
    (tmp_path / "s.arff").write_text("\n".join([*head, "@data", "1,?,Mine", "2,3,Rock"]))
    with pytest.raises(InputError, match="found '\\?'"):
        convert("sonar", tmp_path / "s.arff", tmp_path)
    with pytest.raises(InputError, match="'pacs' cannot be converted; allowed: cifar10"):
        convert("pacs", tmp_path, tmp_path)
