"""A few forged numbers of one client; `benchmarks/forged.py` tries all methods and fifty values."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from fedhpo.federations.remote.replies import TaskFailed, read_scored
from fedhpo.protocol.bounds import NO_SCORE, checked_scores
from fedhpo.protocol.federation import Scores, Status
from fedhpo.protocol.objective import Objective

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def forged():
    if not BENCHMARKS.exists():
        pytest.skip("benchmarks are not there")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("forged")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize(
    ("place", "method", "lie"),
    [
        ("flower", "sha", ("all", 1e308)),
        ("flower", "flora", ("loss", 1e30)),
        ("flower", "fedtune", ("old, unnamed", None)),
        ("simulation", "random", ("repeated", None)),
    ],
)
def test_one_forged_value_costs_at_most_a_point(forged, place, method, lie):
    """Stopped midway, resumed, and as good at the seven honest clients as what they choose alone."""
    if place == "flower":
        pytest.importorskip("flwr")
    alone, found = (forged.case(place, method, n) for n in (None, forged.VALUES.index(lie)))
    assert (found.bare, found.refused) == ("", "")
    assert alone.points - found.points <= 1


def test_there_are_fifty_values_and_every_method(forged):
    from fedhpo.methods.registry import METHODS

    assert len(forged.VALUES) == 50
    assert set(forged.KINDS) == set(METHODS)
    assert {what for what, _ in forged.VALUES} >= {
        "loss",
        "accuracy",
        "size",
        "old",
        "repeated",
        "another trial's",
    }


def scores(loss, accuracy):
    count = len(loss)
    ok, rows = np.full(count, Status.OK, np.int8), np.full(count, 10)
    return Scores(0, "validation", np.arange(count), ok, rows, np.array(loss), np.array(accuracy))


def test_a_client_without_an_accuracy_does_not_end_a_trial():
    """It tells a loss and says NaN for its accuracy: the mean of the others, (0.5 + 0.7) / 2."""
    told = scores([1.0, 1.0, 1.0], [0.5, 0.7, math.nan])
    found = Objective().observe(told, 1, 3)
    assert (found.value, found.clients) == (pytest.approx(0.6), 2)
    # A model whose loss is not a number either has diverged there.
    diverged = Objective().observe(scores([1.0, math.nan], [0.5, math.nan]), 1, 2)
    assert diverged.rank_value == math.inf


def test_a_reply_without_any_score_has_failed():
    with pytest.raises(TaskFailed) as caught:
        read_scored({"trial": 3, "size": 5, "loss": math.nan, "accuracy": None}, 3, 100)
    assert caught.value.reason == NO_SCORE
    assert math.isnan(read_scored({"trial": 3, "size": 5, "loss": 0.5}, 3, 100).accuracy)
    assert read_scored({"trial": 3, "size": 0}, 3, 100).size == 0
    told = checked_scores(scores([1.0, math.nan], [0.5, math.nan]), told=True)
    assert told.status.tolist() == [Status.OK, Status.FAILED]
