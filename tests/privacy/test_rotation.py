"""Rotation: who is asked when, and what that weighs for one client."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import BudgetError
from fedhpo.privacy.caps import ClientCaps
from fedhpo.privacy.means import bounded, mean_scale, noisy_mean
from fedhpo.privacy.noise import ExactNoise, SeededNoise
from fedhpo.privacy.rotation import (
    most_asked,
    rotation_order,
    slot_cohort,
    weights_of_choice,
    weights_of_values,
)
from fedhpo.privacy.selection import one_shot_scale, permute_and_flip_scale, repeated_scale


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 120), st.integers(0, 9))
def test_round_robin_asks_nobody_more_often_than_it_must(clients, size, slots, seed):
    size = min(size, clients)
    order = rotation_order(np.arange(clients) * 3, seed)
    cohorts = [slot_cohort(order, slot, size) for slot in range(slots)]
    assert all(len(set(cohort.tolist())) == size for cohort in cohorts)
    counts = [weights_of_values(cohorts)[client] for client in order.tolist()]
    assert max(counts, default=0) == most_asked(slots, size, clients)
    # Strictly one after the other: the first in the order are one ahead of the others at most.
    assert counts == sorted(counts, reverse=True)
    assert max(counts) - min(counts) <= 1


def test_cohorts_that_follow_each_other_are_disjoint_while_there_are_clients():
    order = rotation_order(np.arange(10), 0)
    three = [set(slot_cohort(order, slot, 3).tolist()) for slot in range(3)]
    assert len(set.union(*three)) == 9
    assert (
        len(three[0] & set(slot_cohort(order, 3, 3).tolist())) == 2
    )  # one is left, then the order begins anew


def test_fresh_draws_are_no_rotation():
    """202 draws of 1 of 100 clients: some client is in 7 or so; in the order none is in more than 3."""
    rng = np.random.default_rng(0)
    drawn = [np.bincount(rng.integers(100, size=202), minlength=100).max() for _ in range(200)]
    assert np.mean(drawn) > 5.5
    assert most_asked(202, 1, 100) == 3


def test_a_slot_larger_than_the_federation_is_refused():
    with pytest.raises(InputError, match="from 1 to 3"):
        slot_cohort([1, 2, 3], 0, 4)


def test_weights_by_hand():
    """Four trials: on disjoint cohorts 1 each, on one cohort 4, overlapping what they overlap by."""
    disjoint = [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert set(weights_of_values(disjoint).values()) == {1}
    assert weights_of_values([[0, 1]] * 4) == {0: 4, 1: 4}
    assert weights_of_values([[0, 1, 2], [2, 3, 0], [1, 2, 3]]) == {0: 2, 1: 2, 2: 3, 3: 2}
    assert weights_of_choice([[0, 1]] * 4) == {0: 1, 1: 1}


def test_scales_by_hand():
    """Hyperband at 1 of 100 clients, epsilon 100: 202 scores come to 0.03 each, not to 2.02."""
    m = most_asked(202, 1, 100)
    assert mean_scale(m, 100.0, 1) == pytest.approx(0.03)
    assert mean_scale(202, 100.0, 1) == pytest.approx(2.02)
    # k = 9 of a rung at 10 replies, three choices of one client: 2 k m / (eps r) and 3 k m / (eps r).
    assert one_shot_scale(9, 1.0 / 3, 1 / 10) == pytest.approx(2 * 9 * 3 / 10)
    assert permute_and_flip_scale(9, 1.0 / 3, 1 / 10) == pytest.approx(2 * 9 * 3 / 10)
    assert repeated_scale(9, 1.0 / 3, 1 / 10) == pytest.approx(3 * 9 * 3 / 10)


@pytest.mark.parametrize("exact", [False, True])
def test_noise_is_on_the_sum(exact):
    """One client moves a sum by one step, whatever the number of clients; the mean's scale is 1/(e r)."""
    if exact:
        pytest.importorskip("opendp")
    noise = ExactNoise() if exact else SeededNoise(np.random.default_rng(0))
    for replies in (1, 3, 7):
        low = np.zeros(replies)
        high = np.array([1.0] + [0.0] * (replies - 1))
        assert noise.total(high) - noise.total(low) == noise.step
        assert noisy_mean(low, 0.5, noise)[1] == pytest.approx(2 / replies)
    assert noise.step * noise.unit == pytest.approx(1.0)


def test_what_a_client_says_changes_no_count():
    said = np.array([np.nan, np.inf, -np.inf, -0.1, 1.2, 0.4])
    assert bounded(said, maximise=True).tolist() == [0, 0, 0, 0, 0, 0.4]
    assert bounded(said, maximise=False).tolist() == [1, 1, 1, 1, 1, 0.4]


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.lists(st.integers(0, 6), max_size=5, unique=True), st.integers(1, 4)), max_size=40),
)
def test_no_client_gets_above_its_cap(most, releases):
    """Whatever is asked for: who is able is counted, who is not is not asked."""
    caps, risen = ClientCaps(most), 0
    for clients, weight in releases:
        able = caps.able(clients, weight)
        risen += caps.take(dict.fromkeys(able, weight))
        assert max(caps.taken.values(), default=0) <= most
        for client in set(clients) - set(able):
            assert caps.taken[client] + weight > most
            with pytest.raises(BudgetError, match=f"client {client} took part"):
                caps.take({client: weight})
    assert risen == caps.largest == max(caps.taken.values(), default=0)


def test_caps_of_their_own():
    caps = ClientCaps(3, {4: 1, 5: 3})
    assert caps.able([4, 5, 6]) == [4, 5]  # nothing was planned for 6
    caps.take({4: 1, 5: 2})
    assert caps.able([4, 5]) == [5]
    assert caps.heaviest == 5
