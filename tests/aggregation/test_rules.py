"""Robust rules by hand: what they give on a few numbers, and what hostile clients cannot do to them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.agreement_filter import agreement_filter
from fedhpo.aggregation.centred_clipping import centred_clipping
from fedhpo.aggregation.direction_filter import direction_filter
from fedhpo.aggregation.held import squared_distances
from fedhpo.aggregation.multi_krum import multi_krum
from fedhpo.aggregation.nearest_neighbour_mixing import mixed
from fedhpo.aggregation.presets import SAFE, STRICT
from fedhpo.aggregation.sizes import size_limits
from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.data import from_clients
from fedhpo.federations.simulate import simulate
from fedhpo.protocol.federation import Work

#: Rules that do not follow a minority; the mean, and norm clipping alone, follow it in part.
ROBUST = [
    Aggregation(rule="median"),
    Aggregation(rule="trimmed_mean", trim=0.25),
    Aggregation(rule="multi_krum", trim=0.25),
    Aggregation(rule="nnm", trim=0.25),
    SAFE,
    STRICT,
]


def put_together(how, updates, sizes=None):
    aggregate = how.start()
    for update, size in zip(updates, sizes or [1] * len(updates), strict=True):
        aggregate.add(np.asarray(update, np.float32), size)
    return aggregate.mean()


def test_norm_clipping_by_hand():
    """Norms are 5, 5 and 500: the last becomes (-3, 4). By size, 1 : 1 : 2."""
    updates = [[3, 4], [0, 5], [-300, 400]]
    assert put_together(Aggregation(rule="norm_clipping"), updates, [1, 1, 2]).tolist() == [-0.75, 4.25]
    uniform = Aggregation("uniform", "norm_clipping")
    np.testing.assert_allclose(put_together(uniform, updates, [1, 1, 2]), [0, 13 / 3], rtol=1e-6)


def test_centred_clipping_by_hand():
    """Around 1 the differences are -1, 1 and 99; with radius 1 the last is 1: the centre moves by 1/3."""
    updates = np.array([[0], [2], [100]], np.float32)
    centre = np.ones(1, np.float32)
    assert centred_clipping(updates, centre, radius=1.0, iterations=1) == pytest.approx([4 / 3])
    # Without a radius it is the median distance, 1 in the first step too; then 2/3 from 4/3.
    assert centred_clipping(updates, centre, iterations=2) == pytest.approx(
        [4 / 3 + (-2 / 3 + 2 / 3 + 2 / 3) / 3]
    )


def test_centred_clipping_remembers_the_step_before_and_forks_with_it():
    rng = np.random.default_rng(0)
    data = from_clients([(rng.normal(size=(12, 4)).astype(np.float32), np.arange(12) % 3) for _ in range(4)])
    with simulate("linear", data, aggregation="centred_clipping", workers=0) as federation:
        federation.start(0, {}, 0)
        federation.start(1, {}, 1)
        before = federation.state(0).arrays["weights"]
        federation.round([Work(0, [0, 1, 2, 3], {"lr": 0.1})])
        state = federation.state(0)
        np.testing.assert_allclose(state.arrays["server.centre"], state.arrays["weights"] - before, atol=1e-6)
        federation.fork(0, 1)
        assert (federation.state(1).arrays["server.centre"] == state.arrays["server.centre"]).all()


def test_multi_krum_by_hand():
    """Of 0, 1, 2, 3 and 90, one hostile: two neighbours count, scores are 5, 2, 2, 5 and 15,313."""
    assert multi_krum(np.array([[0], [1], [2], [3], [90]], np.float32), 1).tolist() == [1.5]
    assert multi_krum(np.array([[5]], np.float32), 0).tolist() == [5]


def test_nearest_neighbour_mixing_by_hand():
    """With two of four hostile, each becomes the mean of itself and its nearest; then the ends are cut."""
    updates = np.array([[0], [2], [3], [50]], np.float32)
    assert mixed(updates, 2).ravel().tolist() == [1, 2.5, 2.5, 26.5]
    assert put_together(Aggregation(rule="nnm", trim=0.25), updates).tolist() == [
        pytest.approx(np.mean([5 / 3, 5 / 3]))
    ]


def test_the_direction_filter_by_hand():
    """Fifteen clients go right, five go left, ten times as far: the five are left out."""
    updates = np.array([[1.0, 0.1]] * 15 + [[-10.0, 0.1]] * 5, np.float32)
    np.testing.assert_allclose(direction_filter(updates, 5), [1, 0.1], rtol=1e-5)
    # Turned round, but short: as well.
    updates[15:] = [-0.01, 0]
    np.testing.assert_allclose(direction_filter(updates, 5), [1, 0.1], rtol=1e-5)


@pytest.mark.parametrize("how", ROBUST, ids=lambda how: f"{how.rule} {how.trim}")
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1.0, 100.0, 1e6]))
@settings(max_examples=15, deadline=None)
def test_a_quarter_of_far_updates_does_not_move_a_robust_rule_beyond_the_honest(how, seed, scale):
    rng = stream(seed, "rules")
    honest = rng.normal(1.0, 0.1, size=(15, 8))
    hostile = -scale * rng.uniform(1, 2, size=(5, 8))
    found = put_together(how, [*honest, *hostile])
    assert (found > honest.min(axis=0) - 0.2).all()
    assert (found < honest.max(axis=0) + 0.2).all()


@pytest.mark.parametrize("rule", Aggregation.RULES)
def test_every_rule_takes_cohorts_of_one_two_and_three(rule):
    for clients in (1, 2, 3):
        found = put_together(Aggregation(rule=rule, trim=0.4), [[2.0, -1.0]] * clients)
        np.testing.assert_allclose(found, [2, -1], rtol=1e-6)
        assert found.dtype == np.float32


@pytest.mark.parametrize("rule", Aggregation.RULES)
def test_updates_that_are_the_same_stay_as_they_are_and_order_does_not_matter(rule):
    rng = np.random.default_rng(0)
    updates = rng.normal(size=(9, 5)).astype(np.float32)
    how = Aggregation("uniform", rule, trim=0.25)
    np.testing.assert_allclose(put_together(how, updates), put_together(how, updates[::-1]), atol=1e-6)


def test_distances_of_long_vectors_are_those_of_plain_numpy():
    updates = np.random.default_rng(0).normal(size=(4, 150_000)).astype(np.float32)
    plain = ((updates[:, None].astype(float) - updates[None].astype(float)) ** 2).sum(-1)
    np.testing.assert_allclose(squared_distances(updates), plain, rtol=1e-9, atol=1e-6)


def test_size_limits_by_hand():
    """The median of 10, 12, 14 and 100,000 is 13; nobody weighs more than 26, or than it said."""
    assert size_limits([10, 12, 14, 100_000], 2.0).tolist() == [10, 12, 14, 26]
    assert size_limits([1, 1, 0], 2.0).tolist() == [1, 1, 0]
    assert size_limits([], 2.0).tolist() == []


def test_a_weight_cap_in_simulation_bounds_training_and_scores():
    rng = np.random.default_rng(0)
    data = from_clients(
        [(rng.normal(size=(n, 4)).astype(np.float32), np.arange(n) % 3) for n in (20, 20, 200)]
    )
    with simulate("linear", data, weight_cap=1.5, workers=0) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1, 2], {"lr": 0.1})])
        [scores] = federation.evaluate([0], [0, 1, 2])
    assert report.train_size.tolist() == [16, 16, 24]
    assert scores.size[2] == 1.5 * scores.size[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rule": "nmm"}, "nnm"),
        ({"weight_cap": 0.5}, "weight_cap must be at least 1"),
        ({"trim": 0.5}, "trim"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Aggregation(**wrong)


def test_the_agreement_filter_by_hand():
    """Fifteen clients go right, five go left, ten times as far or a hundredth: the five are left out."""
    updates = np.array([[1.0, 0.1]] * 15 + [[-10.0, 0.1]] * 5, np.float32)
    for left in ([-10.0, 0.1], [-0.01, 0.0]):
        updates[15:] = left
        found, _ = agreement_filter(updates, 5, np.arange(20))
        np.testing.assert_allclose(found, [1, 0.1], rtol=1e-5)
    # Most decide which way is right: with eleven going left, these are kept.
    updates = np.array([[1.0, 0.0]] * 9 + [[-1.0, 0.0]] * 11, np.float32)
    assert agreement_filter(updates, 8, np.arange(20))[0] == pytest.approx([-1 + 2 / 12, 0])


def test_the_agreement_filter_remembers_who_went_the_other_way():
    """In the second round clients 1 and 2 go left and right by chance; who went left before is left out."""
    first = np.array([[2, 0], [2, 0.2], [2, -0.2], [-2, 0]], np.float32)
    _, memory = agreement_filter(first, 1, np.array([4, 1, 2, 7]))
    assert memory.size == 64
    second = np.array([[1, 0], [-1, 0], [1, 0], [-1, 0]], np.float32)
    found, again = agreement_filter(second, 1, np.array([4, 1, 2, 7]), memory)
    np.testing.assert_allclose(found, [1 / 3, 0], atol=1e-6)  # of clients 4, 1 and 2
    table = again.reshape(8, 8)
    # Clients 4 and 7 disagreed fully twice: -1 by the square of the median norm, decayed, and -1 again. What
    # client 0 did is not known.
    squared = ((2 + 4.04**0.5) / 2) ** 2
    assert table[4, 7] == table[7, 4] == pytest.approx(-0.97 * squared - 1)
    assert not table[0].any()


def test_the_agreement_filter_leaves_out_nobody_where_all_agree_and_keeps_to_numbers():
    updates = np.array([[1, 0], [1, 1], [1, 0.5], [1, -0.2]], np.float32)
    alone, _ = agreement_filter(updates, 2, np.arange(4))
    every, _ = agreement_filter(updates, 0, np.arange(4))
    assert alone.tolist() == every.tolist()
    huge, memory = agreement_filter(np.float32(1e30) * updates, 2, np.arange(4))
    assert np.isfinite(huge).all()
    assert np.isfinite(memory).all()
    still, memory = agreement_filter(np.float32(0) * updates, 2, np.arange(4))
    assert still.tolist() == [0, 0]
    assert not memory.any()


def test_short_updates_do_not_unsay_what_long_ones_said():
    """Client 3 turned its updates round while they were long; late ones tell nothing, twenty times over."""
    clients = np.arange(4)
    _, memory = agreement_filter(np.array([[4, 0], [4, 1], [4, -1], [-4, 0]], np.float32), 1, clients)
    late = np.array([[0.1, 0], [-0.1, 0], [-0.1, 0.1], [-0.1, 0]], np.float32)
    for _ in range(20):
        found, memory = agreement_filter(late, 1, clients, memory)
    # The mean of the first three, where the third is shortened to 0.1.
    np.testing.assert_allclose(found, [-0.1 / 18**0.5, 0.1 / 18**0.5], rtol=1e-5)


def test_the_agreement_filter_remembers_nothing_of_clients_beyond_its_memory():
    updates = np.array([[1, 0], [1, 0], [-1, 0]], np.float32)
    found, memory = agreement_filter(updates, 1, np.array([0, 10**6, 10**6 + 1]))
    assert found.tolist() == [1, 0]
    assert memory.size == 1


def test_a_trial_keeps_what_the_agreement_filter_remembers():
    rng = np.random.default_rng(0)
    data = from_clients([(rng.normal(size=(12, 4)).astype(np.float32), np.arange(12) % 3) for _ in range(4)])
    with simulate("linear", data, aggregation="agreement_filter", trim=0.4, workers=0) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [1, 3], {"lr": 0.1})])
        [report] = federation.round([Work(0, [0, 3, 2], {"lr": 0.1})])
        agreement = federation.state(0).arrays["server.agreement"].reshape(4, 4)
    assert agreement[1, 3] != 0
    assert agreement[0, 1] == 0  # these never met
    assert report.updates.length.shape == report.updates.cosine.shape == (3,)
    assert (report.updates.length > 0).all()
