"""Randomised response: how much an answer tells, and what the server makes of all of them."""

import math

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.methods.fedtune import ProfileQuery
from fedhpo.methods.fedtune.ask_profiles import corrected, truthful
from fedhpo.protocol.query import Party, Rows

QUERY = ProfileQuery((0.2, 0.8), (20, 60), epsilon=1.0)


def party(labels, seed=0):
    rows = Rows(np.zeros((len(labels), 2)), np.asarray(labels))
    return Party(0, rows, rows, 10, None, np.random.default_rng(seed))


def test_no_answer_is_more_than_e_to_the_epsilon_times_as_likely_under_another_profile():
    """Counted over 3,000 draws for two clients in cells 0 and 3."""
    told = [
        np.bincount([QUERY.answer(party(labels, seed)) for seed in range(3_000)], minlength=4) / 3_000
        for labels in (np.arange(20) % 9, np.arange(60) % 2)
    ]
    keep, stray = truthful(1.0, 4), (1 - truthful(1.0, 4)) / 3
    assert keep / stray == pytest.approx(math.e)
    assert told[0] == pytest.approx([keep, stray, stray, stray], abs=0.04)
    assert told[1] == pytest.approx([stray, stray, stray, keep], abs=0.04)


def test_the_histogram_is_right_on_average_and_humble_where_it_is_noise():
    rng = np.random.default_rng(1)
    keep = truthful(2.0, 4)
    shares = np.array([0.6, 0.3, 0.1, 0.0])

    def found(clients):
        true = rng.choice(4, clients, p=shares)
        other = (true + rng.integers(1, 4, clients)) % 4
        told = np.where(rng.random(clients) < keep, true, other)
        return corrected(np.bincount(told, minlength=4), 2.0)

    assert found(20_000) == pytest.approx(shares, abs=0.03)
    few = [found(10) for _ in range(200)]
    assert all(one.sum() == pytest.approx(1) and one.min() >= 0 for one in few)
    # Of ten clients less is believed: the estimate stays nearer to equal shares than the truth is.
    assert np.mean([np.abs(one - 0.25).sum() for one in few]) < np.abs(shares - 0.25).sum()


def test_a_real_client_draws_its_own_noise():
    """The same seed gives the same answers in a simulation, and others at a real client."""
    labels = np.arange(20) % 9
    assert [QUERY.answer(party(labels, 5)) for _ in range(30)] == [QUERY.answer(party(labels, 5))] * 30
    real = QUERY.at_client()
    assert len({real.answer(party(labels, 5)) for _ in range(200)}) > 1
    assert ProfileQuery.from_dict(QUERY.to_dict()).to_dict() == QUERY.to_dict()


def test_mistakes():
    with pytest.raises(InputError, match="no training rows"):
        QUERY.answer(party([]))
    with pytest.raises(InputError, match="epsilon"):
        ProfileQuery((0.2,), (20,), epsilon=0.0)
