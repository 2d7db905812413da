"""Proxy sampling: exact quantities and classes, the index attained, a held-out part that is nobody's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data import IID, from_arrays
from fedhpo.methods.fedtune import Cells, Profiles, ProxySet, profiled
from fedhpo.methods.fedtune.dealing import deal, mix_for, shared_out
from fedhpo.methods.fedtune.measures import measured


def samples(rows=600, classes=10, seed=0):
    labels = np.random.default_rng(seed).integers(classes, size=rows)
    labels[:classes] = np.arange(classes)
    return from_arrays(np.zeros((rows, 2)), labels, IID(3), classes=classes)


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 1), st.integers(12, 90), st.integers(1, 4), st.integers(2, 12), st.integers(0, 5))
def test_partitions_have_exactly_the_quantity_and_the_classes(index, quantity, clients, classes, seed):
    labels = np.arange(1200) % classes
    rows = deal(labels, "heterogeneity_index", index, quantity, clients, np.random.default_rng(seed))
    # FACTS: c = round(1 + (1 - HI)(c_max - 1)), halves up.
    held = int(np.floor(1 + (1 - index) * (classes - 1) + 0.5))
    for client in range(clients):
        own = rows.rows(client)
        assert len(own) == len(set(own.tolist())) == quantity
        assert len(np.unique(labels[own])) == held


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(["entropy", "gaussian", "poisson"]),
    st.floats(0.3, 1.0),
    st.integers(100, 200),
    st.integers(0, 5),
)
def test_other_measures_come_near_the_index_with_the_exact_quantity(measure, index, quantity, seed):
    labels = np.arange(3000) % 10
    rows = deal(labels, measure, index, quantity, 2, np.random.default_rng(seed))
    for client in range(2):
        own = rows.rows(client)
        assert len(own) == len(set(own.tolist())) == quantity
        assert profiled(measure, labels[own], 10)[0] == pytest.approx(index, abs=0.05)


@pytest.mark.parametrize("measure", ["entropy", "gaussian", "poisson"])
@pytest.mark.parametrize("index", [0.2, 0.5, 0.9])
def test_a_mix_has_the_wanted_index_where_the_family_reaches_it(measure, index):
    found = measured(measure, mix_for(measure, index, 10))
    if measure == "poisson" and index < 0.3:
        assert found > index  # cut off after one turn, it never spreads evenly
    else:
        assert found == pytest.approx(index, abs=0.005)


@given(st.integers(1, 60), st.lists(st.floats(0.0, 1.0), min_size=3, max_size=8), st.integers(0, 9))
def test_rows_are_shared_out_within_the_room(quantity, mix, seed):
    mix = np.array(mix) + 1e-3
    room = np.random.default_rng(seed).integers(20, 40, size=len(mix))
    counts = shared_out(quantity, mix, room)
    assert counts.sum() == quantity
    assert (counts <= room).all()
    assert (counts >= 0).all()


@given(st.integers(0, 20), st.floats(0.05, 0.5))
@settings(deadline=None, max_examples=20)
def test_the_held_out_part_is_balanced_and_nobody_s(seed, share):
    data = samples(seed=seed)
    proxy = ProxySet.of(data, share, seed)
    counts = np.bincount(data.y[proxy.scored], minlength=10)
    each = max(1, int(share * 600) // 10)
    assert counts.tolist() == [min(each, n // 2) for n in np.bincount(data.y, minlength=10)]
    assert not np.intersect1d(proxy.scored, proxy.dealt).size
    assert np.union1d(proxy.scored, proxy.dealt).tolist() == list(range(600))


def test_the_federation_of_all_cells():
    proxy = ProxySet.of(samples(), 100)
    cells = Cells((0.0, 0.5, 1.0), (20, 30))
    proxies = proxy.federation(cells, clients=2)
    assert proxies.groups == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert proxies.scorer == 12
    assert proxies.sizes.tolist() == [20, 20, 30, 30] * 3
    # c = 10; round(1 + 0.5 x 9) = 6 (halves up); 1.
    assert proxies.attained.tolist() == pytest.approx([0, 0, 4 / 9, 4 / 9, 1, 1])
    data = proxies.data
    assert data.train_clients.tolist() == list(range(12))
    assert sorted(data.validation.rows(12)) == proxy.scored.tolist()
    # A client's own validation rows are the held-out rows of its classes.
    for client in (0, 5, 11):
        classes = np.unique(data.y[data.train.rows(client)])
        own = [row for row in proxy.scored if data.y[row] in classes]
        assert sorted(data.validation.rows(client)) == own
        assert not set(data.train.rows(client)) & set(proxy.scored)


def test_each_deal_of_a_mixture_holds_out_rows_of_its_own():
    proxy = ProxySet.of(samples(), 100)
    proxies = proxy.mixture(Profiles.uniform(Cells((0.2, 0.8), (20,))), clients=4, deals=3)
    assert proxies.groups == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert proxies.scorer == [12, 13, 14]
    data = proxies.data
    assert data.train_clients.tolist() == list(range(12))
    held = [set(data.validation.rows(scorer).tolist()) for scorer in proxies.scorer]
    assert [len(rows) for rows in held] == [100] * 3
    assert len(set.union(*held)) > 200  # of 600 rows; by chance two deals share 17
    for rows, group in zip(held, proxies.groups, strict=True):
        for client in group:
            assert not rows & set(data.train.rows(client).tolist())
            assert set(data.validation.rows(client).tolist()) <= rows


def test_regression_is_cut_at_deciles():
    targets = np.linspace(0, 1, 501)[1:]
    data = from_arrays(np.zeros((500, 1)), targets, IID(2))
    proxy = ProxySet.of(data, 100)
    assert len(proxy.edges) == 9
    assert proxy.edges[4] == pytest.approx(0.501, abs=1e-6)
    assert np.bincount(proxy.labels[proxy.scored]).tolist() == [10] * 10
    proxies = proxy.federation(Cells((1.0,), (20,)), clients=2)
    for client in range(2):  # one tenth of the range of targets
        assert np.ptp(data.y[proxies.data.train.rows(client)]) <= 0.1


def test_mistakes():
    words = from_arrays(np.ones((8, 3), int), np.ones((8, 3), int), IID(2), task="language", classes=4)
    with pytest.raises(InputError, match="'language' cannot be dealt by class"):
        ProxySet.of(words)
    with pytest.raises(InputError, match=r"held_out=-0\.5"):
        ProxySet.of(samples(), -0.5)
    with pytest.raises(
        InputError, match=r"cell of index 0\.2 and quantity 5: client 0: quantity=5 is too small"
    ):
        ProxySet.of(samples()).federation(Cells((0.2,), (5,)))
    for bad in ({"indices": (0.5, 0.2)}, {"indices": (0.1, 1.2)}, {"quantities": ()}, {"quantities": (0.5,)}):
        with pytest.raises(InputError, match=f"{next(iter(bad))}="):
            Cells(**bad)
    with pytest.raises(InputError, match="quantity=900; allowed: at most the 500 rows"):
        deal(np.arange(500) % 5, "entropy", 0.5, 900, 1, np.random.default_rng(0))
    assert len(fh.methods.fedtune.Cells()) == 24
