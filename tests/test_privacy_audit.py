"""A small audit of private mechanisms; `benchmarks/privacy_audit.py` is the whole one."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def audit():
    if not BENCHMARKS.exists():
        pytest.skip("benchmarks are not there")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("privacy_audit")
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_the_bound_by_hand(audit):
    """Two coins: heads with 1/2 and with 1/(2e). The bound is below 1, and near it."""
    from auditing.bound import epsilon_at_least, log_ratio

    rng = np.random.default_rng(0)
    fair, rare = (np.where(rng.random(40_000) < p, 1.0, 0.0) for p in (0.5, 0.5 / np.e))
    assert 0.85 < epsilon_at_least(rare, fair) < 1
    assert 0.85 < epsilon_at_least(-fair, -rare) < 1
    assert epsilon_at_least(fair, fair) < 0.05
    # No event came in 1,000 draws: q is at most 1 - 0.0005^(1/1000), as (1 - q)^1000 would be 0.0005.
    assert log_ratio(1000, 1000, 0, 1000) == pytest.approx(
        np.log(0.0005 ** (1 / 1000) / (1 - 0.0005 ** (1 / 1000))), rel=1e-6
    )


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("Laplace mean", 0.8),
        ("three Laplace means at one cohort", 0.5),
        ("a score that is NaN", 0.8),
        ("rotation, 7 scores, 4 clients", 0.6),
        ("FedEx's sums", 0.6),
        ("FLoRA's local noise", 0.6),
        ("permute-and-flip, 1 of 2", 0.7),
        ("top-k, 1 of 2", 0.2),
        ("repeated, 1 of 2", 0.1),
        ("a run's choice by permute-and-flip", 0.6),
        ("a run's comparison at held-out clients", 0.4),
        ("FLoRA's local choice, 1 of 8", 0.8),
        ("FLoRA's local choice, 2 of 8", 0.3),
        ("what a party of FLoRA sends", 0.7),
    ],
)
def test_no_mechanism_tells_more_than_it_states(audit, name, least):
    mechanism = next(one for one in (*audit.MECHANISMS, *audit.CHANNELS) if one.name == name)
    draws = 4000 if "run's" in name or "party" in name else 8000  # whole runs take long
    assert least < audit.audited(mechanism, draws) <= audit.EPSILON


@pytest.mark.parametrize(
    "name", ["pairing counted once", "half the noise", "NaN dropped", "a retry drawn anew"]
)
def test_planted_faults_are_seen(audit, name):
    fault = next(one for one in audit.FAULTS if one.name == name)
    assert audit.audited(fault, 4000) > 1.3 * audit.EPSILON
    assert audit.verdict(fault, 0.99) == "NOT CAUGHT"


def test_random_cohorts_are_seen(audit):
    fault = next(one for one in audit.FAULTS if one.name == "random draws for rotation")
    assert audit.audited(fault, 30_000) > audit.EPSILON


def test_an_audit_that_sees_nothing_fails(audit):
    laplace = next(one for one in audit.MECHANISMS if one.name == "Laplace mean")
    assert audit.verdict(laplace, 0.9) == "ok"
    assert "BELOW" in audit.verdict(laplace, 0.7)
    assert "ABOVE" in audit.verdict(laplace, 1.01)


def test_a_run_that_rotates_tells_no_more_than_it_states(audit):
    [mechanism] = [one for one in audit.CHANNELS if one.name == "a run's scores by rotation"]
    assert 0.4 < audit.audited(mechanism, 3000) <= audit.EPSILON
