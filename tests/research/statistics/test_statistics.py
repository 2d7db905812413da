"""Statistics of comparisons: by hand, and against SciPy."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedhpo as fh
from fedhpo.research.statistics import (
    DOES_NOT_HOLD,
    EQUIVALENT,
    HOLDS,
    UNDECIDED,
    Paired,
    Plan,
    Rate,
    holm,
    judge,
    power_of,
    replicates_for,
    sign_flip_p,
)

numbers = st.lists(st.integers(-50, 50).map(lambda value: value / 4), min_size=2, max_size=10)


# Intervals and tests


@pytest.mark.parametrize("count", [2, 8, 15, 40])
def test_t_interval_and_p_value_are_scipys(count):
    values = np.random.default_rng(count).normal(0.3, 1.0, count)
    found, oracle = Paired(tuple(values)), stats.ttest_1samp(values, 0.0)
    assert found.interval(0.9) == pytest.approx(tuple(oracle.confidence_interval(0.9)))
    if count >= 15:
        assert found.p_value() == pytest.approx(oracle.pvalue)
        assert found.p_value(0.3) == pytest.approx(stats.ttest_1samp(values, 0.3).pvalue)


@settings(max_examples=25, deadline=None)
@given(numbers)
def test_the_sign_flip_test_is_scipys(values):
    oracle = stats.permutation_test(
        (np.array(values),), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert sign_flip_p(values) == pytest.approx(oracle.pvalue)


def test_sign_flips_by_hand():
    """1, 2, -3 sum to 0: every pattern is as far out. 1, 2, 4: only the two uniform ones."""
    assert sign_flip_p([1.0, 2.0, -3.0]) == 1.0
    assert sign_flip_p([1.0, 2.0, 4.0]) == 2 / 8
    assert sign_flip_p([0.1, 0.2, 0.3]) == 2 / 8  # whatever rounding does to 0.1 + 0.2
    assert sign_flip_p([1.0, 1.0, 1.0, -1.0]) == 10 / 16


def test_below_fifteen_pairs_both_tests_must_agree():
    """Five equal differences: t says 0, but 2 of 32 patterns are as far out."""
    assert Paired((1.0,) * 5).p_value() == 2 / 32
    assert Paired((1.0,) * 15).p_value() == 0.0
    odd = (0.1, 0.1, 0.1, 0.1, 0.1, 9.0)  # here t is the stricter one
    assert Paired(odd).p_value() == pytest.approx(stats.ttest_1samp(odd, 0.0).pvalue)
    assert sign_flip_p(odd) == 2 / 64


def test_one_pair_says_nothing():
    assert Paired((5.0,)).p_value() == 1.0
    assert Paired((5.0,)).interval() == (-math.inf, math.inf)
    assert math.isnan(Paired(()).mean)


def test_a_run_that_came_to_nothing_is_not_left_out_in_silence():
    with pytest.raises(fh.InputError, match=r"difference 1 is nan: a run that diverged counts at chance"):
        Paired((1.0, math.nan))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(1, 40), st.sampled_from([0.5, 0.9, 0.95]))
def test_the_exact_interval_is_scipys(count, of, level):
    count = min(count, of)
    oracle = stats.binomtest(count, of).proportion_ci(level, method="exact")
    assert Rate(count, of).interval(level) == pytest.approx((oracle.low, oracle.high), abs=1e-12)


def test_collapses_lie_more_than_ten_points_below():
    found = Paired((-10.0, -10.1, 3.0, -40.0)).collapses()
    assert (found.count, found.of) == (2, 4)
    assert Paired((0.0,) * 80).collapses().interval()[1] == pytest.approx(1 - 0.025 ** (1 / 80))


# Verdicts


def test_holm_by_hand():
    """Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, never falling: 0.04, 0.06, 0.06, 0.06."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


def spread(mean, deviation, count=20):
    """Differences with exactly this mean and deviation."""
    values = np.random.default_rng(0).normal(size=count)
    return Paired(tuple(mean + deviation * (values - values.mean()) / values.std(ddof=1)))


def test_each_verdict():
    """With 20 pairs t is 2.093 at 95% and 1.729 at 90%; the error is 1 / sqrt(20) = 0.2236."""
    for mean, expected in [(0.47, HOLDS), (0.46, UNDECIDED), (-0.47, DOES_NOT_HOLD), (0.1, UNDECIDED)]:
        assert judge({"a": spread(mean, 1.0)})["a"].verdict == expected
    # 0.1 +- 1.729 * 0.2236 ends at 0.4866
    assert judge({"a": spread(0.1, 1.0)}, {"a": 0.49})["a"].verdict == EQUIVALENT
    assert judge({"a": spread(0.1, 1.0)}, {"a": 0.48})["a"].verdict == UNDECIDED


def test_what_holds_alone_need_not_hold_in_a_family():
    """t = 0.5 / 0.2236 = 2.236 has p = 0.0375: enough alone, not twice as large."""
    alone, many = judge({"a": spread(0.5, 1.0)}), judge({"a": spread(0.5, 1.0), "b": spread(0.4, 1.0)})
    assert alone["a"].verdict == HOLDS
    assert many["a"].verdict == UNDECIDED
    assert many["a"].p_value == pytest.approx(2 * alone["a"].p_value)
    assert judge({"a": spread(0.5, 1.0)}, family_size=2)["a"].verdict == UNDECIDED


def test_a_claim_that_is_not_true_holds_rarely():
    """All settings equal: at most one in forty should hold, and with 5 pairs none can."""
    rng = np.random.default_rng(7)
    held = [judge({"a": Paired(tuple(rng.standard_t(3, 12)))})["a"].verdict == HOLDS for _ in range(400)]
    assert np.mean(held) < 0.045
    assert judge({"a": spread(9.0, 0.1, count=5)})["a"].verdict == UNDECIDED


# Power


def test_power_by_simulation_and_by_the_table():
    """Cohen's table: 34 pairs find half a deviation with 80% power, 199 a fifth of one."""
    assert replicates_for(0.5, 1.0) == 34
    assert replicates_for(-0.2, 1.0) == 199
    draws = np.random.default_rng(0).normal(0.5, 1.0, (4000, 20))
    rejected = stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05
    assert power_of(20, 0.5, 1.0) == pytest.approx(rejected.mean(), abs=0.025)


def test_power_of_nothing_is_named():
    with pytest.raises(fh.InputError, match="difference must not be 0"):
        replicates_for(0.0, 1.0)


# Plans

CLAIM = {"name": "a", "first": "x", "second": "y", "sets": ["one", "two"], "replicates": 3, "margin": 0.5}
PLAN = {"endpoint": "accuracy", "first_seed": 10, "claims": [CLAIM]}


def test_a_plan_uses_its_own_replicates_only():
    """Seeds 10 to 12 were planned: what is seen of 9 and 13 does not count, however good it is."""
    plan = Plan.from_dict(PLAN)
    values = {"x": {9: 99.0, 10: 1.0, 11: 1.1, 12: 0.9, 13: 99.0}, "y": dict.fromkeys(range(9, 14), 1.0)}
    found = plan.judge(lambda method, set: values[method])["a"]
    assert found.paired.differences == pytest.approx((0.0, 0.1, -0.1) * 2)
    assert found.verdict == EQUIVALENT
    assert plan.seeds("x", "two") == range(10, 13)
    assert list(plan.seeds("z", "two")) == []


def test_an_unfinished_claim_has_no_verdict_and_still_counts_in_its_family():
    plan = Plan.from_dict({**PLAN, "claims": [{**CLAIM, "replicates": 20}, {**CLAIM, "name": "b"}]})
    values = {"x": dict.fromkeys(range(10, 13), 3.0), "y": dict.fromkeys(range(10, 13), 1.0)}
    found = plan.judge(lambda method, set: values[method])
    assert found["a"].verdict == UNDECIDED
    assert found["a"].paired.count == 6
    # Six equal differences: 2 of 64 patterns, times the two claims of the family.
    assert found["b"].p_value == 2 * 2 / 64


def test_mistakes_in_a_plan_are_named(tmp_path: Path):
    with pytest.raises(fh.InputError, match="unknown key of a claim 'margn'"):
        Plan.from_dict({**PLAN, "claims": [{**CLAIM, "margn": 1}]})
    with pytest.raises(fh.InputError, match="a claim needs sets"):
        Plan.from_dict({**PLAN, "claims": [{k: v for k, v in CLAIM.items() if k != "sets"}]})
    with pytest.raises(fh.InputError, match="stands in the plan twice"):
        Plan.from_dict({**PLAN, "claims": [CLAIM, CLAIM]})
    path = tmp_path / "plan.toml"
    path.write_text("endpoint = ", encoding="utf-8")
    with pytest.raises(fh.InputError, match=r"plan\.toml: "):
        Plan.load(path)
