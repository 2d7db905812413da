"""Draws of clients and the errors of scores: against exact probabilities, and by simulation."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import Scores, Status
from fedhpo.protocol.objective import Objective, Score
from fedhpo.research.tables import load_table
from fedhpo.research.tables.replay import replay
from fedhpo.run import open_read
from fedhpo.search.channel import answered_for_all
from fedhpo.search.evaluator import Evaluator
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})


def scores_of(accuracy):
    accuracy = np.asarray(accuracy, float)
    count = len(accuracy)
    status, size = np.zeros(count, np.int8), np.full(count, 10)
    return Scores(0, "validation", np.arange(count), status, size, -np.log(accuracy), accuracy)


def inclusion(weights, count):
    """The probability of each client to be among those drawn one after the other in proportion to weight."""
    found = np.zeros(len(weights))
    for order in itertools.permutations(range(len(weights)), count):
        chance, left = 1.0, sum(weights)
        for client in order:
            chance *= weights[client] / left
            left -= weights[client]
        found[list(order)] += chance
    return found


@pytest.mark.parametrize("bias", [1.0, 1.5, 3.0])
@pytest.mark.parametrize(("accuracy", "count"), [([0.9, 0.5, 0.0], 1), ([0.9, 0.6, 0.4, 0.2], 2)])
def test_biased_draws_include_clients_as_often_as_computed(bias, accuracy, count):
    exact = inclusion([(a + 1e-4) ** bias for a in accuracy], count)
    evaluator, population = Evaluator(clients=count, bias=bias), np.arange(len(accuracy))
    rng, draws = np.random.default_rng(1), 10_000
    drawn = np.zeros(len(accuracy))
    for _ in range(draws):
        drawn[evaluator.draw(population, rng, np.array(accuracy))] += 1
    error = np.sqrt(exact * (1 - exact) / draws)
    assert exact.sum() == pytest.approx(count)
    assert (np.abs(drawn / draws - exact) <= 5 * error + 1e-4).all()


def test_a_bias_of_zero_draws_as_without():
    population = np.arange(50)
    plain = Evaluator(clients=7).draw(population, np.random.default_rng(3))
    same = Evaluator(clients=7, bias=0.0).draw(population, np.random.default_rng(3))
    np.testing.assert_array_equal(plain, same)


def test_a_biased_search_scores_too_well():
    """Noisy clients under a bias look better than they are; the draws follow each trial's own accuracies."""
    found = {}
    for bias in (0.0, 8.0):
        result = fh.tune(
            ToyFederation(clients=40, noise=0.5),
            SPACE,
            "random",
            rounds=2,
            total=20,
            cohort=3,
            evaluation=Evaluator(clients=5, bias=bias),
        )
        found[bias] = np.mean([row["score"] for row in result.trials])
        assert result.facts["best"]["validation"]["clients"] == 5
    assert found[8.0] > found[0.0] + 0.1


def clients_by_trial(run):
    found = {}
    with open_read(run) as held:
        for event in held.record.events():
            call = json.loads(event.call)
            if event.kind == "evaluate" and call["split"] == "validation":
                found.update({trial: tuple(call["clients"]) for trial in call["trials"]})
    return found


@pytest.mark.parametrize("paired", [True, False])
def test_paired_trials_are_scored_at_the_same_clients_others_at_their_own(tmp_path, paired):
    fh.tune(
        ToyFederation(),
        SPACE,
        "random",
        rounds=1,
        total=6,
        cohort=3,
        run=tmp_path / "a",
        evaluation=Evaluator(clients=5, paired=paired),
    )
    found = clients_by_trial(tmp_path / "a")
    assert len(found) == 6
    assert all(len(clients) == 5 for clients in found.values())
    assert len(set(found.values())) == (1 if paired else 6)


@pytest.mark.parametrize("over_all", [40, 400])
def test_the_error_of_drawing_is_what_draws_spread_by(over_all):
    accuracy = np.random.default_rng(0).beta(2, 2, over_all)
    whole, evaluator, objective = scores_of(accuracy), Evaluator(clients=20), Objective(weighting="uniform")
    rng, values, variances = np.random.default_rng(1), [], []
    for _ in range(4000):
        drawn = evaluator.draw(np.arange(over_all), rng)
        found = objective.observe(scores_of(whole.accuracy[drawn]), 1, over_all)
        values.append(found.value)
        variances.append(found.standard_error**2)
    assert np.mean(variances) == pytest.approx(np.var(values), rel=0.1)


def test_recent_scores_are_weighted_means_at_equal_rounds_with_the_right_error():
    """Weights by hand: half-life a quarter of 80 rounds, so 1, 1/2 and 1/4 at rounds 80, 60 and 40."""
    rng, evaluator = np.random.default_rng(2), Evaluator(average="recent")
    errors = {40: 0.1, 60: 0.2, 80: 0.05}
    found = []
    for _ in range(4000):
        drawn = {r: 0.5 + e * rng.normal() for r, e in errors.items()}
        scores = [Score(value, errors[r], 5, r, -value) for r, value in drawn.items()]
        [one, other] = evaluator.compared([scores, scores])
        mean = (0.25 * drawn[40] + 0.5 * drawn[60] + drawn[80]) / 1.75
        assert one == other
        assert one.value == pytest.approx(mean)
        assert one.rank_value == pytest.approx(-mean)
        found.append(one)
    expected = math.sqrt((0.25 * 0.1) ** 2 + (0.5 * 0.2) ** 2 + 0.05**2) / 1.75
    assert found[0].standard_error == pytest.approx(expected)
    assert np.std([score.value for score in found]) == pytest.approx(expected, rel=0.05)


def at(value, round, error=0.1):
    return Score(value, error, 5, round, -value)


def test_trials_are_compared_at_the_rounds_that_all_of_them_were_scored_at():
    evaluator = Evaluator(average="recent")
    slow = [at(0.1, 10), at(0.6, 30), at(0.9, 90)]
    late = [at(0.65, 30), at(0.85, 90)]
    fresh = [at(0.88, 90)]
    weight = 0.5 ** (60 / 22.5)
    mine, theirs = evaluator.compared([slow, late])
    assert mine.value == pytest.approx(
        (0.9 + weight * 0.6) / (1 + weight)
    )  # round 10 is not theirs in common
    assert theirs.value == pytest.approx((0.85 + weight * 0.65) / (1 + weight))
    assert evaluator.compared([slow, late, fresh]) == [slow[-1], late[-1], fresh[-1]]
    assert evaluator.compared([slow, [at(0.5, 30)]]) == [slow[-1], at(0.5, 30)]  # not at one round
    assert Evaluator().compared([slow, late]) == [slow[-1], late[-1]]


def test_scores_of_one_round_share_its_weight():
    evaluator = Evaluator(average="recent")
    twice = [at(0.4, 30), at(0.8, 90), at(0.6, 90)]
    once = [at(0.4, 30), at(0.7, 90)]
    found = evaluator.compared([twice, once])
    assert found[0].value == pytest.approx(found[1].value)
    assert found[0].standard_error < found[1].standard_error


def test_without_noise_recent_is_last():
    evaluator = Evaluator(average="recent")
    exact = [[at(0.1, 10, 0.0), at(0.9, 30, 0.0)], [at(0.8, 10, 0.0), at(0.85, 30, 0.0)]]
    assert evaluator.compared(exact) == [scores[-1] for scores in exact]


def test_a_search_goes_by_recent_scores_and_reports_the_latest():
    evaluation = Evaluator(clients=6, average="recent")
    rungs = []

    def look(event):
        if event.kind == "evaluate":
            rungs.append([(trial.number, list(trial.scores)) for trial in event.trials])

    result = fh.tune(
        ToyFederation(),
        SPACE,
        fh.SHA(trials=9, finalists=1),
        rounds=8,
        total=48,
        cohort=4,
        evaluation=evaluation,
        callbacks=[look],
    )
    for rung, following in itertools.pairwise(rungs):
        compared = evaluation.compared([scores for _, scores in rung])
        order = sorted(zip(compared, rung, strict=True), key=lambda pair: (pair[0].rank_value, pair[1][0]))
        kept = {number for number, _ in following}
        assert kept == {number for _, (number, _) in order[: len(kept)]}
    best = result.facts["best"]["trial"]
    rows = [row for row in result.history if row["trial"] == best and row["split"] == "validation"]
    assert [row["round"] for row in rows] == [2, 4, 8]
    assert result.best_score == pytest.approx(rows[-1]["accuracy"])


def test_an_evaluation_without_a_score_is_left_out_and_ranks_last_itself():
    evaluator = Evaluator(average="recent")
    nothing = Score(math.nan, math.nan, 0, 2, math.inf)
    good = Score(0.5, 0.1, 5, 3, -0.5)
    assert evaluator.compared([[good, nothing]])[0].rank_value == math.inf
    assert evaluator.compared([[nothing, good]]) == [good]


@pytest.mark.parametrize(("clients", "worse"), [(1.0, 0.0), (1, 0.002)])  # all of them, and one
def test_hyperband_with_recent_scores_is_no_worse_than_with_the_last(clients, worse):
    """Means over different rounds had a regret of 2.7 points here, without any noise."""
    table = load_table("mnist")
    best = min(table.truth(c, int(table.rounds[-1])) for c in range(len(table.configs)))
    regret = {
        average: np.mean(
            [
                replay(table, "hyperband", seed=s, evaluation=Evaluator(clients, average=average)).truth
                for s in range(8)
            ]
        )
        - best
        for average in ("last", "recent")
    }
    assert regret["recent"] <= regret["last"] + worse
    assert regret["recent"] < 0.01


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bias": -1.0, "clients": 3}, "bias must be"),
        ({"bias": 1.0}, "needs clients"),
        ({"average": "median"}, "unknown average"),
        ({"average": "mean"}, "Use 'recent'"),
        ({"average": "recent", "privacy": Privacy(1.0, mechanism="topk")}, "releases none"),
        ({"bias": 1.0, "clients": 3, "privacy": Privacy(1.0, release="exact")}, "for simulation"),
    ],
)
def test_what_does_not_go_together_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Evaluator(**wrong)


def _said(accuracy):
    """Scores of each trial at as many clients as it has accuracies."""

    def evaluate(trials, clients):
        return [
            Scores(
                trial,
                "validation",
                np.asarray(clients),
                np.zeros(len(clients), np.int8),
                np.full(len(clients), 9),
                np.full(len(clients), np.nan),
                np.asarray(accuracy[trial], np.float64),
            )
            for trial in trials
        ]

    return evaluate


def test_a_bias_by_message_asks_the_same_clients_about_all_trials():
    """Client 3 is good on average, though bad under trial 0: with b = 40 it always comes."""
    said = {0: [0.9, 0.1, 0.1, 0.3], 1: [0.1, 0.1, 0.1, 0.9]}
    population = np.arange(4)
    for seed in range(20):
        by_trial = Evaluator(clients=1, bias=40.0).ask(_said(said), population, [0, 1], seed)
        assert [one.clients.tolist() for one in by_trial] == [[0], [3]]
        by_message = Evaluator(clients=1, bias=40.0, bias_per="message").ask(
            _said(said), population, [0, 1], seed
        )
        assert [one.clients.tolist() for one in by_message] == [[3], [3]]


def test_a_bias_by_client_goes_by_what_was_seen_first():
    evaluator, population, seen = Evaluator(clients=1, bias=40.0, bias_per="client"), np.arange(3), {}
    for accuracy in ([0.1, 0.9, 0.1], [0.9, 0.1, 0.1], [0.1, 0.1, 0.9]):
        [one] = evaluator.ask(_said({0: accuracy}), population, [0], 0, seen=seen)
        assert one.clients.tolist() == [1]
    assert seen == {0: 0.1, 1: 0.9, 2: 0.1}


def test_who_did_not_answer_about_one_trial_counts_for_none():
    """Client 1 says nothing of trial 0, client 2 fails on trial 1, an answer; nobody knows trial 2."""
    gone, ok, failed = Status.MISSING, Status.OK, Status.FAILED
    both = _said({0: [0.5] * 3, 1: [0.6] * 3, 2: [0.7] * 3})([0, 1, 2], np.arange(3))
    codes = [[ok, gone, ok], [ok, ok, failed], [gone, gone, gone]]
    scores = [replace(one, status=np.array(code, np.int8)) for one, code in zip(both, codes, strict=True)]
    found = [one.status.tolist() for one in answered_for_all(scores)]
    assert found == [[ok, gone, ok], [ok, gone, failed], [gone, gone, gone]]
    assert [one.status.tolist() for one in answered_for_all(scores[:1])] == codes[:1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bias_per": "message"}, "bias_per = 'message' needs bias"),
        ({"bias": 1.0, "bias_per": "round"}, "bias_per"),
        ({"bias": 1.0, "bias_per": "client", "paired": False}, "the same clients about all trials"),
    ],
)
def test_a_bias_that_means_nothing_is_refused(settings, said):
    with pytest.raises(InputError, match=said):
        Evaluator(clients=2, **settings)
