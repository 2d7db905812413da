"""The four kinds of hyperparameters, one value at a time, computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.space import Choice, Float, Int, Ordinal

few = settings(deadline=None)
units = st.floats(0, 1)


def test_log_scale_by_hand():
    lr = Float(1e-4, 1.0, log=True)
    assert [lr.from_unit(unit) for unit in (0, 0.25, 0.5, 0.75, 1)] == [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    assert lr.to_unit(1e-3) == pytest.approx(0.25)
    assert lr.gap(1e-3, 1e-1) == pytest.approx(0.5)
    assert Float(1.0, 3.0).gap(3.0, 2.0) == -0.5


def test_log_scale_of_the_complement_by_hand():
    """1 - 10^U(-4, -2), which grows with the coordinate."""
    decay = Float(0.99, 0.9999, log=True, complement=True)
    assert [decay.from_unit(unit) for unit in (0, 0.5, 1)] == [0.99, 0.999, 0.9999]
    assert decay.from_unit(0.25) == pytest.approx(1 - 10**-2.5, abs=1e-13)
    assert decay.to_unit(0.999) == pytest.approx(0.5)
    assert decay.gap(0.9999, 0.99) == pytest.approx(-1)
    assert decay.near(0.999, 0.1, 1.0, 0.0) == pytest.approx(1 - 10**-3.2)
    assert repr(decay) == "Float(0.99, 0.9999, log=True, complement=True)"


def test_cells_of_discrete_values():
    batch = Ordinal([8, 16, 32, 64])
    assert [batch.to_unit(value) for value in batch.values] == [0.125, 0.375, 0.625, 0.875]
    assert [batch.from_unit(unit) for unit in (0, 0.2499, 0.25, 0.9999, 1)] == [8, 8, 16, 64, 64]
    assert [Int(1, 5).to_unit(value) for value in (1, 3, 5)] == pytest.approx([0.1, 0.5, 0.9])


def test_log_int_is_log_uniform_over_its_rounded_range():
    # P(v) = log((v + 0.5) / (v - 0.5)) / log(8.5 / 0.5)
    hidden = Int(1, 8, log=True)
    draws = [hidden.from_unit((index + 0.5) / 100_000) for index in range(100_000)]
    for value in range(1, 9):
        expected = math.log((value + 0.5) / (value - 0.5)) / math.log(17)
        assert draws.count(value) / 100_000 == pytest.approx(expected, abs=1e-4)


def test_defaults():
    assert Float(0, 10).default_value() == 5.0
    assert Float(0.01, 1, log=True).default_value() == 0.1
    assert Int(1, 5).default_value() == 3
    assert Int(1, 4).default_value() == 3
    assert Ordinal([8, 16, 32]).default_value() == 16
    assert Choice(["b", "a"]).default_value() == "b"
    assert Float(0, 10, default=2).default_value() == 2.0
    assert Choice(["b", "a"], default="a").default_value() == "a"
    assert Choice([None, 3]).default_value() is None


def test_arguments_become_plain_values_and_repr_writes_them_back():
    lr = Float(np.float64(1e-4), 1, log=True, default=np.float32(0.5), when={"model.kind": ["a", "b"]})
    assert repr(lr) == "Float(0.0001, 1.0, log=True, default=0.5, when={'model.kind': ('a', 'b')})"
    again = eval(repr(lr), {"Float": Float})
    assert again == lr
    assert hash(again) == hash(lr)
    assert repr(Ordinal([1, 2])) == "Ordinal((1, 2))"
    assert repr(Int(1, 2)) == "Int(1, 2)"
    assert Ordinal([1, 2]) != Choice([1, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Float(1, 1), "low must be below high, found low=1.0, high=1.0"),
        (lambda: Float(0, 1, log=True), "log=True needs low above 0, found low=0.0"),
        (lambda: Float(0, math.inf), "high = inf: must be finite"),
        (lambda: Float("a", 1), "low must be a finite number .* found 'a'"),
        (lambda: Float(False, 1), "low must be a finite number .* found False"),
        (lambda: Float(0, 1, log=1), "log must be true or false, found 1"),
        (lambda: Float(0, 0.9, complement=True), "complement=True needs log=True"),
        (
            lambda: Float(0, 1, log=True, complement=True),
            "complement=True needs high below 1, found 1.0",
        ),
        (lambda: Float(0, 0.9, log=True, complement="x"), "complement must be true or false, found 'x'"),
        (lambda: Float(0, 1, default=2), "default: 2 is not allowed; allowed: a number from 0.0 to 1.0"),
        (lambda: Int(1, 5.0), "high must be a whole number .* found 5.0"),
        (lambda: Int(0, 5, log=True), "log=True needs low above 0, found low=0"),
        (lambda: Int(5, 1), "low must be below high"),
        (lambda: Int(1, 5, default=2.5), "default: 2.5 is not allowed; allowed: a whole number from 1 to 5"),
        (lambda: Choice([]), "options must not be empty"),
        (lambda: Choice("abc"), "options must be a list, found 'abc'"),
        (lambda: Choice([1, 2, 1]), "options holds 1 twice"),
        (lambda: Ordinal([1, True]), "values holds True twice .equal to 1."),
        (lambda: Ordinal([8, 16], default=12), "default: 12 is not allowed; allowed: one of 8, 16"),
        (lambda: Float(0, 1, when={"a.b": []}), "when 'a.b': the list of values is empty"),
        (lambda: Float(0, 1, when="a.b"), "when must map full names to values"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("value", [True, "1", None, 6, 0, 2.0])
def test_int_refuses(value):
    with pytest.raises(InputError, match="a whole number from 1 to 5"):
        Int(1, 5).check(value)


@few
@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-6, 1e6),
    st.lists(units, min_size=1, max_size=20),
)
def test_linear_floats_return_from_the_unit_interval(low, width, points):
    hyperparameter = Float(low, low + width)
    for point in points:
        value = hyperparameter.from_unit(point)
        assert hyperparameter.low <= value <= hyperparameter.high
        assert hyperparameter.from_unit(hyperparameter.to_unit(value)) == value


@few
@example(low=91131.97061059992, ratio=2.0, points=[1e-106])  # a bound with more digits than values
@given(
    st.floats(-300, 299).map(lambda exponent: 10**exponent),
    st.floats(1.01, 1e12),
    st.lists(units, min_size=1, max_size=20),
)
def test_log_floats_return_from_the_unit_interval(low, ratio, points):
    hyperparameter = Float(low, min(1e300, low * ratio), log=True)
    for point in points:
        value = hyperparameter.from_unit(point)
        assert hyperparameter.low <= value <= hyperparameter.high
        assert hyperparameter.from_unit(hyperparameter.to_unit(value)) == value


@few
@given(st.floats(-9, -0.1), st.floats(1.01, 1e6), st.lists(units, min_size=1, max_size=20))
def test_complement_floats_return_from_the_unit_interval(exponent, ratio, points):
    away = 10**exponent
    hyperparameter = Float(1 - away * ratio, 1 - away, log=True, complement=True)
    for point in points:
        value = hyperparameter.from_unit(point)
        assert hyperparameter.low <= value <= hyperparameter.high
        assert hyperparameter.from_unit(hyperparameter.to_unit(value)) == value


@few
@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_values_with_few_digits_return_exactly(mantissa, other):
    assert Float(0, 1e6).from_unit(Float(0, 1e6).to_unit(mantissa / 1000)) == mantissa / 1000
    log = Float(1e-9, 1e9, log=True)
    assert log.from_unit(log.to_unit(mantissa / 1e6)) == mantissa / 1e6


@few
@given(st.integers(1, 2**40 - 1), st.integers(1, 2**40), st.booleans(), units)
def test_ints_return_from_the_unit_interval(low, width, log, point):
    hyperparameter = Int(low, min(2**40, low + width), log=log)
    for value in (hyperparameter.from_unit(point), hyperparameter.low, hyperparameter.high):
        assert hyperparameter.from_unit(hyperparameter.to_unit(value)) == value


def test_ball_of_whole_numbers_reaches_the_ceiling_of_eps_times_range():
    # ceil(0.1 x 4) = 1 step for five values, ceil(0.5 x 4) = 2; each offset equally likely.
    moves = [(index + 0.5) / 1000 for index in range(1000)]
    near = [Int(1, 5).near(3, 0.1, move, 0.0) for move in moves]
    assert {value: near.count(value) for value in set(near)} == {2: 333, 3: 334, 4: 333}
    assert {Int(1, 5).near(3, 0.5, move, 0.0) for move in moves} == {1, 2, 3, 4, 5}
    assert {Int(1, 5).near(1, 0.1, move, 0.0) for move in moves} == {1, 2}
    assert {Int(1, 5).near(3, 0.0, move, 0.0) for move in moves} == {3}
    # 0.1 x 30 is 3.0000000000000004 in floating point, and still three steps.
    assert {Int(0, 30).near(15, 0.1, move, 0.0) for move in moves} == set(range(12, 19))


def test_evo_moves_whole_steps():
    # floor(0.25 x 8) = 2 steps away or nothing; never less than one step; clipped to the list.
    steps = Ordinal(list(range(8)))
    assert [steps.evolve(4, 0.25, move, 0.0) for move in (0.1, 0.5, 0.9)] == [2, 4, 6]
    assert [steps.evolve(4, 0.01, move, 0.0) for move in (0.1, 0.5, 0.9)] == [3, 4, 5]
    assert [steps.evolve(0, 0.25, move, 0.0) for move in (0.1, 0.5, 0.9)] == [0, 0, 2]


def test_log_int_moves_in_the_log_scale():
    hidden = Int(1, 1000, log=True)
    # exp(0.1 x log(1000.5 / 0.5)) = 2.139: a tenth of the range doubles or halves.
    assert [hidden.evolve(100, 0.1, move, 0.0) for move in (0.1, 0.5, 0.9)] == [47, 100, 214]
    # One step is in reach however small the width is, and none without one.
    assert [hidden.evolve(3, 1e-6, move, 0.0) for move in (0.1, 0.5, 0.9)] == [2, 3, 4]
    assert [hidden.evolve(3, 0.0, move, 0.0) for move in (0.1, 0.5, 0.9)] == [3, 3, 3]
    assert hidden.clip(1000, 100, 0.1) == 214
    assert hidden.clip(1, 100, 0.1) == 47
    assert hidden.clip(1, 3, 1e-6) == 2
    assert hidden.clip(150, 100, 0.1) == 150
    assert hidden.clip(150, 100, 0.0) == 100
    assert hidden.between(10, 1000, 0.5) == 100
    assert hidden.between(100, 30, 0.5) == 55  # sqrt(3000) = 54.8, rounded toward 100
    assert {hidden.near(3, 1e-6, move / 100, 0.0) for move in range(100)} == {2, 3, 4}
    assert {hidden.near(3, 0.0, move / 100, 0.0) for move in range(100)} == {3}


def test_a_choice_is_kept_or_drawn_anew():
    choice = Choice(["a", "b", "c"])
    for move in (choice.near, choice.evolve):
        assert move("a", 0.1, 0.0999, 0.9) == "c"
        assert move("a", 0.1, 0.1, 0.9) == "a"
    assert choice.clip("a", "c", 0.0) == "a"


def test_clip_and_between_by_hand():
    assert Float(0, 10).clip(9.0, 5.0, 0.1) == 6.0
    assert Float(0, 10).clip(5.5, 5.0, 0.1) == 5.5
    assert Float(1e-4, 1, log=True).clip(1.0, 1e-2, 0.25) == 0.1
    assert Int(1, 5).clip(5, 1, 0.3) == 3  # ceil(0.3 x 4) = 2
    assert Float(0, 10).between(5.0, 9.0, 0.25) == 6.0
    assert Int(0, 10).between(5, 9, 0.7) == 7  # 2.8 steps, rounded toward the centre
    assert Int(0, 10).between(5, 1, 0.7) == 3
