"""Accounting: basic composition, and privacy loss distributions against the optimal composition theorem."""

import math

import pytest

from fedhpo.privacy.accounting import composed, epsilon_each
from fedhpo.privacy.privacy import Privacy


def test_basic_composition_splits_evenly():
    assert epsilon_each(Privacy(epsilon=2.0), 8) == 0.25
    assert epsilon_each(Privacy(epsilon=2.0, mechanism="topk"), 8) == 0.25


def test_pld_of_selections_is_the_optimal_composition_of_pure_releases():
    """Kairouz, Oh and Viswanath (2015), Theorem 3.3: k releases of e are ((k - 2i) e, delta_i)."""
    pytest.importorskip("dp_accounting")
    k, e = 10, 0.1
    for i in (1, 2, 3):
        terms = (math.comb(k, l) * (math.exp((k - l) * e) - math.exp((k - 2 * i + l) * e)) for l in range(i))
        delta = sum(terms) / (1 + math.exp(e)) ** k
        privacy = Privacy(epsilon=1.0, mechanism="topk", accounting="pld", delta=delta)
        found = composed(privacy, e, k)
        assert found == pytest.approx((k - 2 * i) * e, abs=2e-3)


def test_pld_of_one_laplace_release_is_its_own_epsilon():
    """Delta of Lap(1/e) at epsilon: 1 - exp((epsilon - e) / 2) (Balle et al., 2018)."""
    pytest.importorskip("dp_accounting")
    e, delta = 1.0, 0.01
    exact = e + 2 * math.log(1 - delta)
    found = composed(Privacy(epsilon=1.0, accounting="pld", delta=delta), e, 1)
    assert found == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("mechanism", ["laplace", "topk"])
def test_pld_needs_less_noise_and_stays_within_the_budget(mechanism):
    pytest.importorskip("dp_accounting")
    privacy = Privacy(epsilon=1.0, mechanism=mechanism, accounting="pld", delta=1e-5)
    each = epsilon_each(privacy, 100)
    assert each > 2 * (1.0 / 100)
    assert composed(privacy, each, 100) <= 1.0
    assert composed(privacy, 1.01 * each, 100) > 1.0
