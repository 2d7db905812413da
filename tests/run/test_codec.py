"""Payloads: exact round trips, and small ones."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedhpo.protocol.federation import Answer, Cost, RoundReport, Scores, Status
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.run.codec import expand, pack, squeeze, unpack

counts = st.integers(0, 2**62)
costs = st.builds(Cost, counts, counts, counts, counts, counts, counts)
known = st.floats(-1e38, 1e38) | st.sampled_from([math.nan, math.inf])
why = st.builds(Reason, st.sampled_from(Why), st.text(max_size=20))


@st.composite
def reasons(draw, members):
    return draw(st.dictionaries(st.integers(0, members - 1), why, max_size=3)) if members else {}


def arrays(draw, dtype, length, **options):
    return draw(hnp.arrays(dtype, length, **options))


@st.composite
def reports(draw):
    n = draw(st.integers(0, 6))
    ints = [arrays(draw, np.int64, n) for _ in range(3)]
    status = arrays(draw, np.int8, n, elements=st.integers(0, 2))
    floats = [arrays(draw, np.float64, n, elements=known) for _ in range(4)]
    trial, number, applied = draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6)), draw(st.booleans())
    return RoundReport(
        trial, number, applied, ints[0], status, *ints[1:], *floats, draw(reasons(n)), draw(costs)
    )


@st.composite
def scores(draw):
    n = draw(st.integers(0, 6))
    status = arrays(draw, np.int8, n, elements=st.integers(0, 2))
    clients, size = arrays(draw, np.int64, n), arrays(draw, np.int64, n)
    loss, accuracy = (arrays(draw, np.float64, n, elements=known) for _ in range(2))
    return Scores(draw(counts), "test", clients, status, size, loss, accuracy, draw(reasons(n)), draw(costs))


def assert_same(one, other):
    """Equal in every field, arrays to the last bit of a NaN."""
    assert type(one) is type(other)
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes()
        else:
            assert left == right
            assert type(left) is type(right)


@settings(max_examples=60, deadline=None)
@given(st.lists(reports(), max_size=3) | st.lists(scores(), max_size=3))
def test_columns_come_back_exactly(items):
    again = unpack(expand(squeeze(pack(items))))
    assert len(again) == len(items)
    for one, other in zip(items, again, strict=True):
        assert_same(one, other)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.builds(Answer, counts, st.sampled_from(Status), json_values, st.text(), costs), max_size=3)
)
def test_answers_come_back_exactly(answers):
    again = unpack(expand(squeeze(pack(answers))))
    assert again == answers
    assert all(type(answer.status) is Status for answer in again)


def test_nan_in_an_answer_stays_nan():
    assert math.isnan(unpack(pack([Answer(0, Status.OK, {"loss": float("nan")})]))[0].content["loss"])


@pytest.mark.parametrize(
    ("trials", "bytes_per_client"),
    [
        (1, 11),
        (27, 9),
    ],  # 8 of loss; sizes 1 of 2 bytes and accuracies of k/n, compressed, and shared by trials
)
def test_100_000_clients_stay_small(trials, bytes_per_client):
    generator = np.random.default_rng(0)
    n = 100_000
    clients, status = np.arange(n), np.zeros(n, dtype=np.int8)
    size = generator.integers(10, 300, n)
    items = []
    for trial in range(trials):
        loss = np.asarray(generator.random(n), dtype=np.float32).astype(np.float64)
        accuracy = generator.binomial(20, 0.5, n) / 20
        items.append(Scores(trial, "validation", clients, status, size, loss, accuracy))
    stored = squeeze(pack(items))
    assert len(stored) < bytes_per_client * n * trials
    for one, other in zip(items, unpack(expand(stored)), strict=True):
        assert_same(one, other)


def test_consecutive_clients_cost_nothing():
    def scored(clients):
        n = len(clients)
        zeros = np.zeros(n)
        return len(pack([Scores(0, "test", clients, zeros.astype(np.int8), zeros.astype(int), zeros, zeros)]))

    assert scored(np.arange(500)) + 950 < scored(np.arange(500)[::-1])  # two bytes for each, else


def test_items_that_share_a_column_do_not_share_memory():
    n = np.arange(3)
    same = [Scores(t, "test", n, n.astype(np.int8) * 0, n, n * 0.5, n * 0.5) for t in range(2)]
    first, second = unpack(pack(same))
    first.loss[0] = 7.0
    assert second.loss[0] == 0.0


def test_arrays_of_unequal_length_are_refused():
    n, m = np.arange(3), np.arange(2)
    with pytest.raises(ValueError, match="loss has shape"):
        pack([Scores(0, "test", n, n.astype(np.int8), n, m * 0.5, n * 0.5)])
