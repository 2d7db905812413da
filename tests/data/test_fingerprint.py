"""Fingerprints of data: every change of a row is seen, and where the rows lie does not matter."""

import hashlib
import time

import numpy as np
import pytest

from fedhpo.core.fingerprint import differences
from fedhpo.data import FederatedData, from_clients
from fedhpo.data.container import Split
from fedhpo.data.fingerprint import client_hashes, data_of, row_hashes

MASK = 2**64 - 1


def mixed(number):
    """The finaliser of splitmix64, from its published definition."""
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


def multiplier(place):
    return mixed((place + 1) * 0x9E3779B97F4A7C15 & MASK) | 1


@pytest.mark.parametrize("size", [1, 3, 4, 7, 40, 64, 203])
def test_a_row_hash_is_a_sum_of_words_times_multipliers(size):
    rows = np.random.default_rng(0).integers(0, 256, (5, size), dtype=np.uint8)
    for row, found in zip(rows, row_hashes(rows), strict=True):
        padded = row.tobytes() + bytes(-size % 4)
        words = [int.from_bytes(padded[i : i + 4], "little") for i in range(0, len(padded), 4)]
        assert found == mixed(sum(w * multiplier(i) for i, w in enumerate(words)) & MASK)


def test_row_hashes_do_not_depend_on_blocks_layout_or_file(tmp_path):
    x = np.random.default_rng(1).normal(size=(40_000, 3, 7))
    whole = row_hashes(x)
    assert (row_hashes(np.asfortranarray(x)) == whole).all()
    assert (row_hashes(np.repeat(x, 2, axis=0)[::2]) == whole).all()
    assert (row_hashes(x[12_345:12_346]) == whole[12_345]).all()
    np.save(tmp_path / "x.npy", x)
    assert (row_hashes(np.load(tmp_path / "x.npy", mmap_mode="r")) == whole).all()
    assert len(np.unique(whole)) == len(x)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64", "float16"])
def test_any_single_byte_changes_the_hash(dtype):
    x = np.random.default_rng(2).normal(size=(1, 9)).astype(dtype)
    raw = x.view(np.uint8)
    seen = {int(row_hashes(x)[0])}
    for place in range(raw.size):
        for bit in range(8):
            raw[0, place] ^= 1 << bit
            seen.add(int(row_hashes(x)[0]))
            raw[0, place] ^= 1 << bit
    assert len(seen) == 1 + 8 * raw.size


def test_changes_that_cancel_in_weaker_sums_are_seen():
    x = np.random.default_rng(3).normal(size=(1, 8))
    signs = {int(row_hashes(x * s)[0]) for s in (np.ones(8), -np.ones(8), np.array([-1, -1, *[1] * 6]))}
    swapped = {int(row_hashes(x[:, order])[0]) for order in (np.arange(8), np.arange(8)[::-1])}
    assert len(signs) == 3
    assert len(swapped) == 2
    assert row_hashes(np.array([[0, 1]]), np.array([0])) != row_hashes(np.array([[0, 0]]), np.array([1]))


def test_a_client_is_its_rows_in_order_wherever_they_lie():
    rows = np.random.default_rng(4).integers(0, 2**63, 9).astype(np.uint64)
    split = Split.from_lists([[0, 1, 2], [], [5], [2, 1, 0], [0, 1, 2], [0, 1]])
    hashes = client_hashes(rows, split).tolist()
    assert hashes[0] == hashes[4]
    assert len(set(hashes)) == 5
    moved = Split.from_lists([[8, 7, 6], [], [3], [6, 7, 8], [8, 7, 6], [8, 7]])
    assert client_hashes(rows[::-1], moved).tolist()[:1] == hashes[:1]
    big = Split.from_owners(np.repeat(np.arange(50), 1000), 50)  # several blocks
    many = np.random.default_rng(5).integers(0, 2**63, 50_000).astype(np.uint64)
    alone = [client_hashes(many, Split.from_lists([big.rows(c)]))[0] for c in range(50)]
    assert client_hashes(many, big).tolist() == alone


def clients(count=6):
    rng = np.random.default_rng(0)
    return [
        {
            split: (rng.normal(size=(4 + c, 3)).astype(np.float32), rng.integers(0, 3, 4 + c))
            for split in SPLITS
        }
        for c in range(count)
    ]


SPLITS = ("train", "validation", "test")


def told(change, **options):
    given = clients()
    before = data_of(from_clients(given, classes=3))
    changed = change(given) or given
    return differences({"data": before}, {"data": data_of(from_clients(changed, **{"classes": 3} | options))})


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("what", [0, 1])
def test_a_difference_names_the_client(split, what):
    def change(given):
        arrays = [array.copy() for array in given[3][split]]
        arrays[what][1] = (arrays[what][1] + 1) % 3
        given[3][split] = tuple(arrays)

    [found] = told(change)
    assert found == "data: client 3 has other rows (features, labels or their order)"


def test_other_sizes_orders_and_numbers_of_clients_are_named():
    def shorter(given):
        given[2]["validation"] = tuple(a[:-1] for a in given[2]["validation"])

    def swapped(given):
        given[1]["train"] = tuple(a[::-1] for a in given[1]["train"])

    assert told(lambda given: None) == []
    assert told(shorter) == ["data: client 2 has 6 validation rows there, 5 here"]
    assert told(swapped) == ["data: client 1 has other rows (features, labels or their order)"]
    assert told(lambda given: [given[i] for i in (0, 2, 1, 3, 4, 5)]) == [
        "data: the clients come in another order (client 1 is the first)"
    ]
    assert told(lambda given: given[:5]) == ["data: the number of clients is 6 there, 5 here"]
    assert told(lambda given: None, classes=4) == ["data: the number of classes is 3 there, 4 here"]


def test_scaling_and_names_count():
    x, y = np.ones((4, 2), np.float32), np.array([0, 1, 0, 1])
    rows, none = Split.from_lists([[0, 1], [2, 3]]), Split.from_lists([[], []])

    def made(**options):
        return {"data": data_of(FederatedData(x, y, rows, rows, none, "classification", 2, **options))}

    mean = np.zeros(2, np.float32)
    assert differences(made(), made(mean=mean, std=mean + 1)) == [
        "data: samples are scaled otherwise (mean and std)"
    ]
    assert differences(made(), made(client_names=("a", "b"))) == ["data: the clients have other names"]
    assert differences(made(), made(name="other")) == ["data: the data set has another name"]


def test_rows_that_nobody_holds_do_not_count():
    x, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    rows = Split.from_lists([[0, 2]])
    one = data_of(FederatedData(x, y, rows, rows, rows, "classification", 2))
    other = x.copy()
    other[1] = 9.0
    assert data_of(FederatedData(other, y, rows, rows, rows, "classification", 2)) == one


def test_it_takes_no_longer_than_a_digest_of_the_bytes_alone():
    x = np.random.default_rng(0).normal(size=(20_000, 784)).astype(np.float32)  # 63 MB
    split, none = Split.from_owners(np.arange(20_000) % 100, 100), Split.from_lists([[]] * 100)
    data = FederatedData(x, np.zeros(20_000, np.int64), split, split, none, "classification", 2)

    def seconds(function):
        begun = time.process_time()
        function()
        return time.process_time() - begun

    pairs = [(seconds(lambda: data_of(data)), seconds(lambda: hashlib.blake2b(x).digest())) for _ in range(3)]
    assert min(mine / plain for mine, plain in pairs) < 1
