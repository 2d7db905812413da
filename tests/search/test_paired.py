"""Trials compared by what each client says of them, where some clients lie."""

import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.protocol.federation import Scores
from fedhpo.protocol.middle import robust_rank, trimmed_and_error, weighted_trimmed
from fedhpo.protocol.objective import Objective
from fedhpo.search.channel import best_first
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.paired import comparable_scores, gain_at_clients, trimmed_rank
from fedhpo.search.trial import FAILED, Evaluation, Trial
from fedhpo.testing.attacks import ThresholdScores, hostile

TRIMMED = Objective(over="trimmed")


def trial(number, *told, clients=None, objective=TRIMMED, rounds=None):
    """A trial with these accuracies by client, an evaluation each."""
    one = Trial(number, fh.Config(), None, ())
    for place, accuracies in enumerate(told):
        one.round = rounds[place] if rounds else place + 1
        count = len(accuracies)
        asked = np.arange(count) if clients is None else np.array(clients)
        unknown, ok, rows = np.full(count, math.nan), np.zeros(count, np.int8), np.full(count, 10)
        scores = Scores(number, "validation", asked, ok, rows, unknown, np.array(accuracies, float))
        one.scores.append(objective.observe(scores, one.round, 100))
        one.evaluations.append(Evaluation(place, one.round, scores))
    return one


#: The better by 0.05 at six honest clients; two liars say the opposite. Clients differ by far more.
BAD = [1.0, 1.0, 0.90, 0.89, 0.70, 0.40, 0.30, 0.20]
GOOD = [0.0, 0.0, *(accuracy + 0.05 for accuracy in BAD[2:])]


@pytest.mark.parametrize("over", ["trimmed", "median"])
def test_liars_that_would_turn_two_raw_scores_round_do_not_turn_paired_ones(over):
    objective = Objective(over=over)
    bad, good = trial(0, BAD, objective=objective), trial(1, GOOD, objective=objective)
    assert bad.rank_value < good.rank_value  # by their own middles the bad one would be taken
    assert best_first([bad, good], Evaluator(), objective) == [good, bad]
    [[worse], [better]] = comparable_scores([bad, good], objective, Evaluator())
    # Half of the difference: the mean over both trials of the middle difference, 0.05, and of none.
    assert (better.rank_value, worse.rank_value) == (pytest.approx(-0.025), pytest.approx(0.025))
    assert (worse.value, worse.round) == (bad.scores[-1].value, 1)  # what is shown stays the score


def test_trials_scored_at_other_clients_or_rounds_are_compared_by_their_scores():
    first, second = trial(0, BAD), trial(1, GOOD, clients=range(8, 16))
    assert comparable_scores([first, second], TRIMMED, Evaluator()) == [first.scores, second.scores]
    later = trial(1, GOOD, rounds=[7])
    assert comparable_scores([first, later], TRIMMED, Evaluator()) == [first.scores, later.scores]
    mean = Objective(weighting="uniform")
    assert comparable_scores([first, trial(1, GOOD)], mean, Evaluator())[0] == first.scores


def test_evaluations_that_not_all_trials_had_are_left_out():
    """The young trial was scored after round 2 only, twice; the old one also before."""
    old = trial(0, BAD, BAD, BAD, rounds=[1, 2, 2])
    young = trial(1, GOOD, GOOD, rounds=[2, 2])
    ours, theirs = comparable_scores([old, young], TRIMMED, Evaluator())
    assert [score.round for score in ours] == [score.round for score in theirs] == [2, 2]
    assert theirs[0].rank_value < 0 < ours[0].rank_value
    recent = Evaluator(average="recent").compared([ours, theirs])
    assert recent[1].rank_value == pytest.approx(-0.025)


def test_a_trial_without_a_finite_score_is_last_and_does_not_matter_to_the_others():
    diverged = trial(0, [math.nan] * 8)
    failed = trial(1, GOOD)
    failed.status = FAILED
    bad, good = trial(2, BAD), trial(3, GOOD)
    assert best_first([diverged, failed, bad, good], Evaluator(), TRIMMED)[:2] == [good, bad]


def test_a_model_that_fails_at_a_few_clients_is_worse_there_and_no_more():
    """NaN at one client of eight is a lie or bad luck: it is trimmed, not left out and not infinite."""
    odd = [math.nan, *GOOD[1:]]
    better, bad = trial(0, odd), trial(1, BAD)
    assert best_first([bad, better], Evaluator(), TRIMMED) == [better, bad]


def test_liars_do_not_choose_what_a_study_ends_with():
    """A quarter answers a threshold between the two models, which makes the bad one look better to a mean."""
    data = fh.load("digits", clients=8, partition={"kind": "dirichlet", "alpha": 0.5}, seed=1)
    space = fh.Space(client={"lr": fh.Choice([0.1, 0.5])})
    chosen = {}
    for name, objective in {"mean": Objective(weighting="uniform"), "trimmed": TRIMMED}.items():
        with fh.simulate("linear", data, workers=0) as federation:
            hostile(federation, ThresholdScores(0.7), share=0.25, seed=1)
            result = fh.tune(
                federation, space, fh.GridSearch(), rounds=3, total=6, cohort=8, seed=0, objective=objective
            )
        chosen[name] = result.best_config.client["lr"]
    assert chosen == {"mean": 0.1, "trimmed": 0.5}


# `choice = "trimmed"`: the objective is a mean, and an eighth of the clients at either end is left out

CHOICE = Evaluator(choice="trimmed")
MEAN = Objective()
#: The better by 0.05 at seven honest clients; the first one lies.
WORSE = [1.0, 0.90, 0.89, 0.70, 0.60, 0.40, 0.30, 0.20]
BETTER = [0.0, *(accuracy + 0.05 for accuracy in WORSE[1:])]


def test_one_liar_of_eight_does_not_turn_a_choice_that_leaves_out_an_eighth():
    worse, better = trial(0, WORSE, objective=MEAN), trial(1, BETTER, objective=MEAN)
    assert best_first([worse, better], Evaluator(), MEAN) == [worse, better]
    assert best_first([worse, better], CHOICE, MEAN) == [better, worse]
    [[one], [other]] = comparable_scores([worse, better], MEAN, CHOICE)
    assert (other.rank_value, one.rank_value) == (pytest.approx(-0.025), pytest.approx(0.025))
    gain, error, clients = gain_at_clients(
        MEAN, CHOICE, better.evaluations[0].scores, worse.evaluations[0].scores
    )
    assert (gain, error, clients) == (pytest.approx(0.05), pytest.approx(0, abs=1e-9), 8)


def test_seven_replies_are_compared_by_their_means():
    worse, better = trial(0, WORSE[:7], objective=MEAN), trial(1, BETTER[:7], objective=MEAN)
    assert comparable_scores([worse, better], MEAN, CHOICE) == [worse.scores, better.scores]


def test_a_liar_cannot_go_below_the_limit_by_silence_about_one_trial():
    worse, better = trial(0, WORSE, objective=MEAN), trial(1, BETTER, objective=MEAN)
    better.evaluations[0].scores.status[7] = 1
    assert best_first([worse, better], CHOICE, MEAN) == [better, worse]


def test_clients_count_by_their_rows_and_one_at_either_end_does_not():
    """Differences 0 to 9, rows 1 but for one client of 3: of 1 to 8, (36 + 2 x 4) / 10."""
    told = np.stack([np.arange(10.0), np.zeros(10)])
    weights = np.where(np.arange(10) == 4, 3.0, 1.0)
    assert robust_rank(told, "trimmed", 0.125, weights)[0] == pytest.approx(4.4 / 2)
    assert weighted_trimmed(np.arange(10.0), weights, 0.125)[0] == pytest.approx(4.4)
    equal = np.ones(10)
    ours, theirs = (weighted_trimmed(told[0], equal, 0.2), trimmed_and_error(told[0], 0.2))
    assert ours == pytest.approx(theirs)


def test_samplers_see_the_trimmed_mean_and_the_report_the_mean():
    """One client of ten says NaN: the mean is not known, and the trial is no worse for it."""
    accuracies = [math.nan, *[0.5] * 8, 0.9]
    seen = trial(0, accuracies, objective=MEAN).evaluations[0].scores
    assert math.isnan(MEAN.observe(seen, 1, 10).value)
    assert trimmed_rank(seen, MEAN) == pytest.approx(-0.5)
