"""Successive halving within a total of rounds."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.schedules.halving import Halving, cost_of, halving_rungs, rung_sizes
from fedhpo.testing import ToyFederation


@pytest.mark.parametrize(
    ("rounds", "total", "sizes", "ends"),
    [
        (800, 4000, [27, 9, 3, 1], [89, 177, 268, 800]),
        (200, 2000, [27, 9, 3, 1], [50, 100, 150, 200]),
        (50, 450, [27, 9, 3, 1], [11, 22, 35, 50]),
        (100, 500, [9, 3, 1], [40, 80, 100]),
    ],
)
def test_published_schedules(rounds, total, sizes, ends):
    assert rung_sizes(sizes[0], 3, None) == sizes
    assert halving_rungs(rounds, total, sizes) == ends
    assert cost_of(ends, sizes) == total


def test_more_budget_than_all_trials_can_use_is_left_over():
    ends = halving_rungs(40, 100_000, [27, 9, 3, 1])
    assert ends == [10, 20, 30, 40]
    assert cost_of(ends, [27, 9, 3, 1]) == 400


@given(
    trials=st.integers(1, 60),
    rate=st.integers(2, 5),
    eliminations=st.none() | st.integers(0, 3),
    rounds=st.integers(1, 900),
    factor=st.floats(1, 30),
)
def test_rungs_rise_and_never_exceed_the_total(trials, rate, eliminations, rounds, factor):
    sizes = rung_sizes(trials, rate, eliminations)
    total = int(rounds * factor)
    try:
        ends = halving_rungs(rounds, total, sizes)
    except InputError:
        short = total < sizes[-1] * rounds + sum(n - sizes[-1] for n in sizes[:-1])
        assert short or rounds < len(sizes)
        return
    assert all(early < late for early, late in itertools.pairwise(ends))
    assert ends[0] >= 1
    assert ends[-1] == rounds
    assert cost_of(ends, sizes) <= total
    room = len(ends) > 1 and ends[-2] < rounds - 1
    if room and max(b - a for a, b in zip([0, *ends], ends, strict=False)) < rounds // len(sizes):
        # Integers allow it as long as one more round of the cheapest rung can be paid.
        assert total - cost_of(ends, sizes) < sizes[-2] - sizes[-1]


def test_below_one_rung_names_the_least_total():
    with pytest.raises(InputError, match=r"27 -> 9 -> 3 -> 1 .* at least 76 rounds.*not 75"):
        halving_rungs(40, 75, [27, 9, 3, 1])
    assert halving_rungs(40, 76, [27, 9, 3, 1]) == [1, 2, 3, 40]


def test_survivors_are_the_best_of_their_rung_and_continue():
    space = fh.Space(client={"lr": fh.Float(1e-4, 10.0, log=True)})
    toy = ToyFederation(clients=10, noise=0.0)
    result = fh.tune(toy, space, fh.SHA(trials=9), rounds=10, total=30, cohort=4)
    by_rounds = {}
    for trial in result.facts["trials"]:
        by_rounds.setdefault(trial["rounds"], []).append(trial)
    assert {rounds: len(trials) for rounds, trials in by_rounds.items()} == {2: 6, 4: 2, 10: 1}
    # Without noise the trials nearest to the best learning rate survive.
    import math

    distance = lambda t: abs(math.log10(t["config"]["client"]["lr"] / 0.1))  # noqa: E731
    assert max(map(distance, by_rounds[4] + by_rounds[10])) < min(map(distance, by_rounds[2]))
    assert max(map(distance, by_rounds[10])) < min(map(distance, by_rounds[4]))
    rounds = [row["round"] for row in result.history if row["trial"] == result.facts["best"]["trial"]]
    trained = [r for r in rounds if r]
    assert sorted(set(trained)) == list(range(1, 11))  # continued, never restarted
    assert result.cost["rounds"] == 9 * 2 + 3 * 2 + 6


def test_without_trials_they_follow_the_total():
    """27 for every five trainings in the total: 86 for 16, of which all but what integers leave is spent."""
    sizes, ends = Halving().plan(800, 4000)
    assert (sizes, ends) == ([27, 9, 3, 1], [89, 177, 268, 800])
    for finalists, rest in ((1, 1), (3, 2)):
        sizes, ends = Halving(finalists=finalists).plan(81, 1296)
        assert (sizes[0], sizes[-1]) == (86, finalists)
        assert cost_of(ends, sizes) == 1296 - rest
    assert Halving().plan(9, 9) == ([1], [9])  # a total that pays for less has fewer


def test_finalists_take_at_most_three_fifths_of_the_total():
    assert Halving(27, finalists=3).plan(800, 4000) == ([27, 9, 3], [53, 107, 800])
    assert [Halving(finalists=3).plan(100, 100 * n)[0][-1] for n in (1, 2, 3, 4, 5, 20)] == [1, 1, 1, 2, 3, 3]


@given(rounds=st.integers(1, 200), factor=st.floats(1, 40), finalists=st.integers(1, 4))
def test_a_plan_that_follows_the_total_spends_nearly_all_of_it(rounds, factor, finalists):
    total = int(rounds * factor)
    sizes, ends = Halving(finalists=finalists).plan(rounds, total)
    assert cost_of(ends, sizes) <= total
    if rounds >= 27 and total >= 2 * rounds:
        assert cost_of(ends, sizes) > 0.9 * total


def test_a_small_space_gets_fewer_trials():
    space = fh.Space(client={"lr": fh.Choice([0.01, 0.1, 1.0, 10.0])})
    result = fh.tune(ToyFederation(), space, rounds=8, total=80, cohort=4)
    assert len(result.trials) == 4
    assert {row["client.lr"] for row in result.trials} == {0.01, 0.1, 1.0, 10.0}


@pytest.mark.parametrize("wrong", [{"trials": 0}, {"rate": 1}, {"eliminations": -1}, {"finalists": 0}])
def test_wrong_settings(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Halving(**wrong)
