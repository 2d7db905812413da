import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.data import (
    IID,
    Dirichlet,
    GaussianSkew,
    HeterogeneityIndex,
    Natural,
    PoissonSkew,
    Shards,
    partition_from_dict,
)
from fedhpo.data.by_class import deal

quick = settings(max_examples=40, deadline=None)

labels_of = st.builds(
    lambda n, classes, seed: np.random.default_rng(seed).integers(classes, size=n),
    st.integers(60, 300),
    st.integers(2, 8),
    st.integers(0, 100),
)
complete = st.one_of(
    st.builds(IID, st.integers(1, 20), st.booleans()),
    st.builds(Dirichlet, st.integers(1, 20), st.floats(0.01, 100), st.integers(0, 3), st.booleans()),
    st.builds(Shards, st.integers(1, 20), st.integers(1, 3)),
)
partial = st.one_of(
    st.builds(GaussianSkew, st.integers(1, 20), st.floats(0.05, 5), st.just(None), st.floats(0, 1)),
    st.builds(PoissonSkew, st.integers(1, 20), st.floats(0, 5)),
)


@quick
@given(complete, labels_of, st.integers(0, 10))
def test_every_row_goes_to_exactly_one_client(partition, labels, seed):
    split = partition(labels, np.random.default_rng(seed))
    assert split.clients == partition.clients
    assert np.sort(split.indices).tolist() == list(range(len(labels)))
    again = partition(labels, np.random.default_rng(seed))
    assert (again.indices == split.indices).all()
    assert (again.offsets == split.offsets).all()


@quick
@given(partial, labels_of, st.integers(0, 10))
def test_no_row_goes_to_two_clients(partition, labels, seed):
    split = partition(labels, np.random.default_rng(seed))
    assert split.clients == partition.clients
    assert len(np.unique(split.indices)) == len(split.indices)
    assert split.sizes.min() >= 1


@quick
@given(labels_of, st.integers(1, 20), st.booleans())
def test_iid_sizes_differ_by_at_most_one(labels, clients, stratified):
    split = IID(clients, stratified)(labels, np.random.default_rng(0))
    assert np.ptp(split.sizes) <= 1
    if stratified:
        counts = np.array([np.bincount(labels[split.rows(c)], minlength=8) for c in range(clients)])
        assert np.ptp(counts, axis=0).max() <= 1


@quick
@given(labels_of, st.integers(1, 20), st.floats(0.01, 1), st.integers(0, 3))
def test_dirichlet_gives_everybody_the_minimum(labels, clients, alpha, minimum):
    assert Dirichlet(clients, alpha, minimum)(labels, np.random.default_rng(0)).sizes.min() >= minimum
    balanced = Dirichlet(clients, alpha, balanced=True)(labels, np.random.default_rng(0))
    assert np.ptp(balanced.sizes) <= 1


def test_dirichlet_skew_follows_alpha():
    labels = np.repeat(np.arange(10), 1000)

    def largest_share(partition):
        split = partition(labels, np.random.default_rng(0))
        counts = np.array([np.bincount(labels[split.rows(c)], minlength=10) for c in range(50)])
        return (counts / counts.sum(axis=1, keepdims=True)).max(axis=1).mean()

    for balanced in (False, True):
        shares = [largest_share(Dirichlet(50, alpha, balanced=balanced)) for alpha in (0.02, 0.5, 1000.0)]
        assert shares[0] > 0.7
        assert 0.2 < shares[1] < 0.6
        # 200 rows drawn evenly from 10 classes: the largest share is about 0.1 + 1.54 x 0.021.
        assert shares[2] < 0.145


def test_balanced_dirichlet_draws_symmetric_proportions():
    # With alpha = 1 and two equal classes, a client's share of class 0 is uniform: variance 1/12
    # (plus 1/6 x 1/200 of drawing 200 rows). Half the rows are left over, so no class runs out.
    labels = np.repeat([0, 1], 100_000)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet([1.0, 1.0], size=500)
    split = deal(labels, np.full(500, 200), weights, rng)
    share = np.array([(labels[split.rows(c)] == 0).mean() for c in range(500)])
    assert share.mean() == pytest.approx(0.5, abs=0.04)
    assert share.var() == pytest.approx(1 / 12 + 1 / 1200, abs=0.01)
    assert np.abs(share - weights[:, 0]).max() < 0.15


def test_deal_falls_back_on_what_is_left():
    labels = np.array([0, 0, 1, 1, 1])
    split = deal(labels, np.array([2, 3]), np.array([[1.0, 0.0], [1.0, 0.0]]), np.random.default_rng(0))
    assert sorted(labels[split.rows(0)].tolist() + labels[split.rows(1)].tolist()) == [0, 0, 1, 1, 1]
    assert split.sizes.tolist() == [2, 3]


def test_shards_hold_few_classes():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 60))
    split = Shards(clients=100, per_client=2)(labels, np.random.default_rng(1))
    assert split.sizes.tolist() == [6] * 100
    # 200 shards of 3 rows, 20 to a class: no shard straddles two classes.
    held = [len(np.unique(labels[split.rows(c)])) for c in range(100)]
    assert set(held) == {1, 2}
    assert held.count(1) < 30  # by chance 1 in 10


@quick
@given(st.floats(0, 1), st.integers(10, 40), st.integers(1, 12), st.booleans(), st.integers(0, 50))
def test_heterogeneity_index_is_exact(index, quantity, clients, replace, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(10), 200))
    partition = HeterogeneityIndex(clients, index, quantity, replace)
    split = partition(labels, np.random.default_rng(seed))
    assert split.sizes.tolist() == [quantity] * clients
    wanted = round(1 + (1 - index) * 9)
    for client in range(clients):
        counts = np.bincount(labels[split.rows(client)], minlength=10)
        held = np.count_nonzero(counts)
        assert abs(held - wanted) <= (1 if abs((1 - index) * 9 % 1 - 0.5) < 1e-9 else 0)
        assert partition.attained(10)[client] == pytest.approx(1 - (held - 1) / 9)
        assert np.ptp(counts[counts > 0]) <= 1
    assert len(np.unique(split.indices)) == clients * quantity


def test_index_and_quantity_are_crossed():
    partition = HeterogeneityIndex(24, index=[0.2, 0.4, 0.6, 0.8], quantity=[10, 20, 30, 40, 50, 60])
    assert len(set(zip(*partition.wanted(), strict=True))) == 24
    labels = np.repeat(np.arange(10), 300)
    split = partition(labels, np.random.default_rng(0))
    assert split.sizes.tolist() == np.repeat([10, 20, 30, 40, 50, 60], 4).tolist()
    held = [len(np.unique(labels[split.rows(c)])) for c in range(4)]
    assert held == [8, 6, 5, 3]  # 8.2, 6.4, 4.6, 2.8


def test_index_uses_data_to_the_last_row_and_says_when_it_ends():
    labels = np.repeat(np.arange(5), 20)
    split = HeterogeneityIndex(10, 1.0, 10)(labels, np.random.default_rng(0))
    assert np.sort(split.indices).tolist() == list(range(100))
    with pytest.raises(
        InputError, match=r"wants quantity=10 rows of 1 classes, but only 0 of 100 rows are left"
    ):
        HeterogeneityIndex(11, 1.0, 10)(labels, np.random.default_rng(0))
    shared = HeterogeneityIndex(21, 1.0, 10, replace=True)(labels, np.random.default_rng(0))
    assert shared.sizes.tolist() == [10] * 21
    assert all(len(np.unique(shared.rows(c))) == 10 for c in range(21))
    assert np.bincount(shared.indices, minlength=100).min() >= 1  # shared only once all are used


def test_index_spreads_unevenly_where_classes_are_small():
    labels = np.array([0] * 30 + [1] * 2 + [2] * 2)
    split = HeterogeneityIndex(1, 0.0, 20)(labels, np.random.default_rng(0))
    assert np.bincount(labels[split.rows(0)]).tolist() == [16, 2, 2]


def test_gaussian_skew_without_deviation_has_fixed_sizes_and_a_bell_of_classes():
    labels = np.repeat(np.arange(10), 1000)
    split = GaussianSkew(10, spread=1.0, quantity=200, deviation=0.0)(labels, np.random.default_rng(0))
    assert split.sizes.tolist() == [200] * 10
    for client in range(10):
        counts = np.bincount(labels[split.rows(client)], minlength=10)
        centre = np.roll(counts, 5 - counts.argmax())[2:9]
        assert centre.sum() >= 195  # beyond 3 deviations nearly nothing is left
        assert counts.max() == pytest.approx(200 * 0.399, abs=35)


def test_poisson_skew_starts_at_a_class_of_its_own():
    labels = np.repeat(np.arange(10), 1000)
    split = PoissonSkew(10, rate=0.0, quantity=100)(labels, np.random.default_rng(0))
    assert all(len(np.unique(labels[split.rows(c)])) == 1 for c in range(10))
    assert split.sizes.mean() == pytest.approx(100, abs=10)
    split = PoissonSkew(1, rate=1.0, quantity=5000)(labels, np.random.default_rng(0))
    counts = np.bincount(labels[split.rows(0)], minlength=10)
    # Poisson(1): e^-1 at 0 and at 1 step; class sizes of 1000 cap both, the rest moves on.
    assert np.sort(counts)[-2:].tolist() == [1000, 1000]


def test_natural_takes_a_random_subset_of_the_groups():
    groups = np.repeat(np.arange(20), np.arange(1, 21))
    labels = np.zeros(len(groups), dtype=int)
    everybody = Natural()(labels, np.random.default_rng(0), groups)
    assert everybody.sizes.tolist() == list(range(1, 21))
    some = Natural(clients=5, minimum=10)(labels, np.random.default_rng(0), groups)
    assert some.clients == 5
    assert some.sizes.min() >= 10
    assert all(len(set(groups[some.rows(c)])) == 1 for c in range(5))
    assert all(len(some.rows(c)) == groups[some.rows(c)][0] + 1 for c in range(5))
    other = Natural(clients=5, minimum=10)(labels, np.random.default_rng(1), groups)
    assert some.sizes.tolist() != other.sizes.tolist()
    with pytest.raises(InputError, match="clients=21, but the data has 20 groups"):
        Natural(clients=21)(labels, np.random.default_rng(0), groups)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IID(0), "clients must be a whole number of at least 1, not 0"),
        (lambda: IID(True), "clients must be a whole number of at least 1, not True"),
        (lambda: Dirichlet(2, -1.0), "alpha=-1.0"),
        (lambda: Dirichlet(2, "small"), "alpha='small'"),
        (lambda: Dirichlet(2, 1.0, minimum=-1), "minimum=-1"),
        (lambda: Shards(2, 0), "per_client=0"),
        (lambda: HeterogeneityIndex(2, 1.5, 10), "index=1.5; allowed: numbers from 0 to 1"),
        (lambda: HeterogeneityIndex(2, "all", 10), "index='all'"),
        (lambda: HeterogeneityIndex(2, 0.5, 2.5), "quantity=2.5"),
        (lambda: HeterogeneityIndex(2, 0.5, []), r"quantity=\[\]"),
        (lambda: GaussianSkew(2, spread=0), "spread=0"),
        (lambda: GaussianSkew(2, deviation=float("nan")), "deviation=nan"),
        (lambda: PoissonSkew(2, rate=-1), "rate=-1"),
        (lambda: Natural(minimum=0), "minimum=0"),
        (lambda: partition_from_dict({"kind": "dirchlet"}), "did you mean 'dirichlet'"),
        (lambda: partition_from_dict({"alpha": 1}), "partition has no key 'kind'; known kinds: dirichlet, g"),
        (
            lambda: partition_from_dict({"kind": "iid", "alpha": 1}, 3),
            "unknown key of partition 'iid' 'alpha'",
        ),
        (
            lambda: partition_from_dict({"kind": "dirichlet"}, 3),
            "partition 'dirichlet' needs the key 'alpha'",
        ),
        (lambda: partition_from_dict({"kind": "iid", "clients": 2}, 3), "clients=2, but clients=3"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (IID(11), "clients=11 of at least 1 rows need 11 rows, found 10"),
        (Dirichlet(4, 1.0, minimum=3), "clients=4 of at least 3 rows need 12 rows, found 10"),
        (Natural(), "needs data that comes in groups"),
        (HeterogeneityIndex(1, 0.0, 1), "quantity=1 is too small for the 2 classes that index=0.0 needs"),
        (PoissonSkew(2, quantity=6), "quantity=6; allowed: from 1 to 5"),
    ],
)
def test_data_that_does_not_suffice_is_refused(partition, message):
    with pytest.raises(InputError, match=message):
        partition(np.arange(10) % 2, np.random.default_rng(0))


def test_every_kind_can_be_written_in_a_study():
    made = [
        partition_from_dict({"kind": "iid", "stratified": True}, 3),
        partition_from_dict({"kind": "shards"}, 3),
        partition_from_dict({"kind": "natural"}),
        partition_from_dict({"kind": "heterogeneity_index", "index": [0.2, 0.8], "quantity": 5}, 3),
        partition_from_dict({"kind": "gaussian", "spread": 2.0}, 3),
        partition_from_dict({"kind": "poisson", "clients": 3}),
    ]
    assert made == [
        IID(3, stratified=True),
        Shards(3),
        Natural(),
        HeterogeneityIndex(3, [0.2, 0.8], 5),
        GaussianSkew(3, 2.0),
        PoissonSkew(3),
    ]
