"""Our partitioners against those of flwr-datasets: the same distributions of sizes and label shares."""

import numpy as np
import pytest
from scipy import stats

from fedhpo.data import IID, Dirichlet, Shards

partitioner = pytest.importorskip("flwr_datasets.partitioner", reason="flwr-datasets is not installed")
datasets = pytest.importorskip("datasets", reason="flwr-datasets is not installed")

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 400))


def theirs(partition, clients):
    partition.dataset = datasets.Dataset.from_dict({"label": LABELS, "row": np.arange(len(LABELS))})
    return [np.array(partition.load_partition(c)["row"]) for c in range(clients)]


def shares(lists):
    """Of each client's rows, the share of each class; a table (clients, classes)."""
    counts = np.array([np.bincount(LABELS[rows], minlength=10) for rows in lists])
    return counts / counts.sum(axis=1, keepdims=True)


def ours(partition, seed=0):
    split = partition(LABELS, np.random.default_rng(seed))
    return [split.rows(c) for c in range(split.clients)]


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_dirichlet(alpha):
    kind = partitioner.DirichletPartitioner
    a, b = [], []
    for seed in range(5):
        a += ours(Dirichlet(20, alpha), seed)
        b += theirs(kind(20, "label", alpha, min_partition_size=1, self_balancing=False, seed=seed), 20)
    assert stats.ks_2samp([len(rows) for rows in a], [len(rows) for rows in b]).pvalue > 0.01
    assert stats.ks_2samp(shares(a).max(axis=1), shares(b).max(axis=1)).pvalue > 0.01


def test_iid():
    a, b = ours(IID(30)), theirs(partitioner.IidPartitioner(30), 30)
    assert sorted(len(rows) for rows in a) == sorted(len(rows) for rows in b)
    assert stats.ks_2samp(shares(a).max(axis=1), shares(b).max(axis=1)).pvalue > 0.01


def test_shards():
    kind = partitioner.ShardPartitioner
    a = ours(Shards(50, 2))
    b = theirs(kind(num_partitions=50, partition_by="label", num_shards_per_partition=2), 50)
    assert [len(rows) for rows in a] == [len(rows) for rows in b] == [80] * 50
    held = [[np.count_nonzero(row) for row in shares(lists)] for lists in (a, b)]
    assert set(held[0]) == set(held[1]) == {1, 2}
    assert abs(held[0].count(1) - held[1].count(1)) < 12
