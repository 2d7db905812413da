"""Scores over clients: hand-computed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Scores
from fedhpo.protocol.middle import robust_rank
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
    "wrong", [{"metric": "acuracy"}, {"over": "mode"}, {"tail": 0}, {"weighting": "none"}]
)
def test_wrong_objective(wrong):
    with pytest.raises(InputError, match=str(next(iter(wrong.values())))):
        Objective(**wrong)


def scores_of(accuracies, sizes=None):
    with np.errstate(divide="ignore"):
        return scores(accuracies, [10] * len(accuracies) if sizes is None else sizes)


def test_the_median_and_the_trimmed_mean_by_hand():
    """Ten clients; three of them say 0, and have claimed many rows."""
    told = scores_of([0.9, 0.8, 0.7, 0.6, 0.9, 0.8, 0.7, 0, 0, 0], [10] * 7 + [1000] * 3)
    assert Objective(over="median").observe(told, 0, 100).value == pytest.approx(0.7)
    # A quarter of ten is two: left are 0, 0.6, 0.7, 0.7, 0.8, 0.8.
    trimmed = Objective(over="trimmed").observe(told, 0, 100)
    assert trimmed.value == pytest.approx(0.6)
    # Winsorised: three zeros, then 0.6, 0.7, 0.7 and four times 0.8.
    winsorised = np.array([0, 0, 0, 0.6, 0.7, 0.7, 0.8, 0.8, 0.8, 0.8])
    expected = winsorised.std(ddof=1) / (0.6 * math.sqrt(10)) * math.sqrt(1 - 10 / 100)
    assert trimmed.standard_error == pytest.approx(expected)
    assert Objective(over="trimmed").to_dict()["trim"] == 0.25


def test_errors_of_robust_means_are_those_that_samples_show():
    """Over 2,000 draws of 40 clients from a skewed population the spread is what the error says."""
    rng = np.random.default_rng(0)
    for over in ("median", "trimmed"):
        found = [
            Objective("loss", over=over).observe(loss_scores(rng.gamma(2.0, size=40)), 0, 10**9)
            for _ in range(2000)
        ]
        spread = np.std([one.value for one in found])
        assert np.mean([one.standard_error for one in found]) == pytest.approx(spread, rel=0.15)


def loss_scores(losses):
    return replace(scores_of(np.full(len(losses), np.nan)), loss=np.array(losses, float))


def test_a_robust_gain_is_that_of_paired_differences():
    """Honest clients gain 0.1 each, wherever they stand; two liars of eight say that all is lost."""
    before = np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 0.9])
    after = np.where(np.arange(8) < 6, before + 0.1, 0.0)
    trimmed = Objective(over="trimmed")
    gain, error, clients = paired_gain(trimmed, scores_of(after), scores_of(before))
    assert (gain, clients) == (pytest.approx(0.1), 8)
    assert error == pytest.approx(0.0, abs=1e-12)
    assert paired_gain(Objective(), scores_of(after), scores_of(before))[0] < -0.1


def test_robust_rank_sees_through_liars_where_medians_of_raw_scores_do_not():
    """Two of eight lie; honest clients differ by more than trials do."""
    bad = np.array([0.0, 0.0, 0.10, 0.11, 0.30, 0.60, 0.70, 0.80])
    good = bad - 0.05
    good[:2] = 1.0  # the liars
    ranks = robust_rank([bad, good])
    assert ranks[1] < 0 < ranks[0]
    assert ranks[1] == pytest.approx(-ranks[0])
    assert np.median(good) > np.median(bad)  # which would take the bad one


def test_robust_rank_without_scores():
    ranks = robust_rank([np.array([0.5, np.nan]), np.array([np.nan, 0.2]), np.full(2, np.nan)])
    assert ranks.tolist() == [0.0, 0.0, math.inf]
