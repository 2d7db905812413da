import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.data import from_clients
from fedhpo.data.mixing import mix_validation


@pytest.fixture
def data():
    """Client c validates on 40 rows (10 for the last one) of its own class."""

    def rows(n, label):
        return np.zeros((n, 1)), np.full(n, label)

    return from_clients(
        [
            {"train": rows(3, c), "validation": rows(10 if c == 4 else 40, c), "test": rows(2, c)}
            for c in range(5)
        ]
    )


def own(data):
    """How many validation rows of each client are of its own class."""
    hits = data.y[data.validation.indices] == data.validation.owners
    return np.bincount(data.validation.owners[hits], minlength=5)


def test_nothing_changes_at_zero(data):
    assert mix_validation(data, 0.0, np.random.default_rng(0)) is data


def test_half_of_each_client_is_kept(data):
    dealt = mix_validation(data, 0.5, np.random.default_rng(0)).validate()
    assert dealt.validation.sizes.tolist() == data.validation.sizes.tolist()
    for client in range(5):
        before, after = set(data.validation.rows(client)), dealt.validation.rows(client)
        kept = len(before & set(after))
        assert kept >= len(before) // 2
    # Of the 20 replaced rows 40 in 170 are of the own class again, by chance.
    assert (own(dealt) < [35, 35, 35, 35, 9]).all()


def test_at_one_every_pooled_row_is_equally_likely(data):
    rng = np.random.default_rng(0)
    draws = np.zeros(len(data.x))
    for _ in range(400):
        dealt = mix_validation(data, 1.0, rng)
        draws += np.bincount(dealt.validation.indices, minlength=len(draws))
    pool = np.isin(np.arange(len(draws)), data.validation.indices)
    assert draws[~pool].sum() == 0
    # Each of 170 rows is drawn 400 times on average, with standard deviation 20.
    assert draws[pool].mean() == 400
    assert draws[pool].std() == pytest.approx(20, abs=4)


def test_training_and_test_rows_stay(data):
    dealt = mix_validation(data, 1.0, np.random.default_rng(0))
    assert dealt.train is data.train
    assert dealt.test is data.test


def test_halves_are_rounded_up():
    rows = np.zeros((3, 1)), np.arange(3)
    data = from_clients([{"train": rows, "validation": rows}, {"train": rows, "validation": rows}])
    seen = set()
    for seed in range(200):
        dealt = mix_validation(data, 0.5, np.random.default_rng(seed))
        seen.add(len(set(dealt.validation.rows(0)) & set(data.validation.rows(0))))
    assert min(seen) == 1  # 2 of 3 rows are replaced, never all


def test_share_is_checked(data):
    with pytest.raises(InputError, match=r"p=1.5; allowed"):
        mix_validation(data, 1.5, np.random.default_rng(0))
