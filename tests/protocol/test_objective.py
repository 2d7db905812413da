"""Scores over clients: hand-computed."""

import math

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Scores
from fedhpo.protocol.objective import Objective, paired_gain
from fedhpo.search.evaluator import Evaluator


def scores(accuracy, size, clients=None, status=None):
    count = len(accuracy)
    return Scores(
        0,
        "validation",
        np.arange(count) if clients is None else np.array(clients),
        np.zeros(count, np.int8) if status is None else np.array(status, np.int8),
        np.array(size),
        -np.log(np.array(accuracy, float)),
        np.array(accuracy, float),
    )


def test_mean_by_size_and_uniform():
    seen = scores([0.2, 0.8], [30, 10])
    assert Objective().observe(seen, 5, 2).value == pytest.approx(0.35)
    assert Objective(weighting="uniform").observe(seen, 5, 2).value == pytest.approx(0.5)
    assert Objective("error").observe(seen, 5, 2).value == pytest.approx(0.65)
    assert Objective("accuracy").observe(seen, 5, 2).rank_value == pytest.approx(-0.35)


def test_tail_is_the_mean_over_those_worst_off():
    seen = scores([0.9, 0.1, 0.5, 0.3], [10, 10, 10, 10])
    assert Objective(over="tail", tail=0.5).observe(seen, 1, 4).value == pytest.approx(0.2)
    assert Objective("error", over="tail", tail=0.25).observe(seen, 1, 4).value == pytest.approx(0.9)


def test_standard_error_of_drawing_clients():
    seen = scores([0.2, 0.4, 0.6, 0.8], [10, 10, 10, 10])
    of_many = Objective().observe(seen, 1, 10**9).standard_error
    assert of_many == pytest.approx(np.std([0.2, 0.4, 0.6, 0.8], ddof=1) / 2)  # s / sqrt(n)
    assert Objective().observe(seen, 1, 8).standard_error == pytest.approx(of_many * math.sqrt(0.5))
    assert Objective().observe(seen, 1, 4).standard_error == 0.0


def test_clients_that_failed_or_hold_nothing_do_not_count():
    seen = scores([0.5, 0.9, 0.1], [10, 0, 10], status=[0, 0, 1])
    found = Objective().observe(seen, 1, 3)
    assert (found.value, found.clients) == (0.5, 1)


def test_no_score_ranks_last():
    nothing = scores([math.nan], [10])
    assert Objective().observe(nothing, 1, 1).rank_value == math.inf


def test_gain_is_paired_by_client():
    better = scores([0.6, 0.9, 0.7], [10, 10, 10])
    than = scores([0.5, 0.6, 0.5], [10, 10, 10])
    gain, error, clients = paired_gain(Objective(), better, than)
    assert gain == pytest.approx(0.2)
    assert error == pytest.approx(np.std([0.1, 0.3, 0.2], ddof=1) / math.sqrt(3))
    assert clients == 3
    assert paired_gain(Objective("error"), better, than)[0] == pytest.approx(0.2)


def test_gain_uses_only_shared_clients():
    better = scores([0.6, 0.9], [10, 10], clients=[4, 7])
    than = scores([0.1, 0.5], [10, 10], clients=[7, 9])
    assert paired_gain(Objective(), better, than)[0] == pytest.approx(0.8)


def test_draw_without_replacement():
    population = np.arange(10, 30)
    drawn = Evaluator(clients=7).draw(population, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 7
    assert set(drawn) <= set(population)
    assert len(Evaluator(clients=0.25).draw(population, np.random.default_rng(0))) == 5
    assert Evaluator().draw(population, np.random.default_rng(0)) is population
    counts = np.zeros(30)
    for seed in range(2000):
        counts[Evaluator(clients=5).draw(population, np.random.default_rng(seed))] += 1
    # Each client is drawn with probability 1/4: 500 of 2000, within five standard deviations.
    assert np.abs(counts[10:] - 500).max() < 5 * math.sqrt(2000 * 0.25 * 0.75)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "all"])
def test_wrong_number_of_clients(wrong):
    with pytest.raises(InputError, match="clients"):
        Evaluator(clients=wrong)


def test_more_clients_than_there_are():
    with pytest.raises(InputError, match="5 clients; only 3"):
        Evaluator(clients=5).draw(np.arange(3), np.random.default_rng(0))


@pytest.mark.parametrize(
    "wrong", [{"metric": "acuracy"}, {"over": "median"}, {"tail": 0}, {"weighting": "none"}]
)
def test_wrong_objective(wrong):
    with pytest.raises(InputError, match=str(next(iter(wrong.values())))):
        Objective(**wrong)
