"""The statistics of the referee: values computed by hand, and properties."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.referee.evidence import BETS, evidence, evidence_path, least_pairs, mean_and_interval
from fedhpo.referee.rules import Rules

sizes = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=7)


def test_two_pairs_by_hand() -> None:
    # The first factor is 1 + tanh(b); the scale of the second is sqrt((3^2 + 4^2) / 2).
    scale = math.sqrt(12.5)
    expected = np.mean([(1 + math.tanh(b)) * (1 - math.tanh(4 * b / scale)) for b in BETS])
    assert evidence([3.0, -4.0]) == pytest.approx(expected, rel=1e-12)


def test_a_factor_is_the_one_of_the_statement() -> None:
    for bet, d in itertools.product((0.3, 2.0), (-1.5, 0.2)):
        assert math.exp(bet * d) / math.cosh(bet * d) == pytest.approx(1 + math.tanh(bet * d))


@given(sizes)
def test_the_mean_over_all_signs_is_one(magnitudes: list[float]) -> None:
    """Exact: under the null hypothesis, given sizes, all signs are equally likely."""
    signs = itertools.product((-1, 1), repeat=len(magnitudes))
    mean = np.mean([evidence(np.array(magnitudes) * sign) for sign in signs])
    assert mean == pytest.approx(1.0, rel=1e-9)


@given(sizes, st.floats(1e-3, 1e3), st.data())
def test_it_has_no_unit_and_is_at_most_doubled(
    magnitudes: list[float], unit: float, data: st.DataObject
) -> None:
    signs = data.draw(st.lists(st.sampled_from((-1, 1)), min_size=len(magnitudes), max_size=len(magnitudes)))
    d = np.array(magnitudes) * signs
    path = evidence_path(d)
    assert evidence_path(unit * d) == pytest.approx(path, rel=1e-6)
    assert (path <= 2.0 ** np.arange(1, len(d) + 1)).all()
    assert (path >= 0).all()


@pytest.mark.parametrize("draw", ["normal", "laplace", "cauchy", "two-valued", "growing"])
def test_it_rarely_exceeds_under_symmetry(draw: str) -> None:
    """Ville: at most 5% of paths ever reach 20. Ten standard errors would not be noticed below that."""
    rng = np.random.default_rng(7)
    shape = (2000, 40)
    d = {
        "normal": lambda: rng.normal(size=shape),
        "laplace": lambda: rng.laplace(size=shape),
        "cauchy": lambda: rng.standard_cauchy(shape),
        "two-valued": lambda: rng.choice([-1.0, 1.0], shape),
        "growing": lambda: rng.normal(size=shape) * np.arange(1, 41),
    }[draw]()
    reached = np.mean([evidence_path(row).max() >= 20 for row in d])
    assert reached <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 2000)


def test_equal_scores_say_nothing() -> None:
    assert evidence_path([0.0, 0.0, 0.5]).tolist()[:2] == [1.0, 1.0]


def test_twenty_proposals_take_nine_pairs() -> None:
    rules = Rules(proposals=20)
    assert rules.threshold(1) == 400 == rules.threshold(20)
    assert rules.least_pairs(1) == least_pairs(400) == 9
    assert 2**8 < 400 <= 2**9
    with pytest.raises(InputError, match="at least 9"):
        Rules(proposals=20, pairs=8).check_reachable(1)


def test_open_ended_shares_of_alpha_add_up_to_alpha() -> None:
    rules = Rules(alpha=0.05)
    assert sum(1 / rules.threshold(j) for j in range(1, 10_000)) == pytest.approx(0.05, rel=1e-3)


def test_a_drop_is_said_where_the_improvement_is_below_the_least() -> None:
    rules = Rules(least=0.01, drop=0.1)
    # least - d is positive in every pair: 1.7968, then more; at least four pairs, as 2^3 < 10 <= 2^4.
    assert [rules.judge(1, [0.0] * n) for n in (3, 4)] == [None, "drop"]
    assert rules.judge(1, [0.02] * 4) is None


def test_the_interval_is_students() -> None:
    mean, low, high = mean_and_interval([0.01, 0.02, 0.03])
    # t(0.975, 2) = 4.302653, standard error 0.01 / sqrt(3)
    assert (mean, low, high) == pytest.approx((0.02, 0.02 - 0.0248414, 0.02 + 0.0248414), rel=1e-4)
    assert math.isnan(mean_and_interval([0.1])[1])


@pytest.mark.parametrize(
    ("field", "value"),
    [("alpha", 0.0), ("alpha", 1.0), ("drop", 1.5), ("proposals", 0), ("least", -0.1), ("after", 1)],
)
def test_settings_outside_their_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        Rules(**{field: value})
