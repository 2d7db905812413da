"""Further objectives and constraints, by hand."""

import math

import numpy as np
import pytest

from fedhpo import InputError, Objective
from fedhpo.protocol.criteria import Constraint, Criteria, Judged, aim_of
from fedhpo.protocol.federation import Cost, Scores


def judged(accuracy=(0.5, 0.7, 0.9), cost=None, trained=4, rounds=20):
    count = len(accuracy)
    scores = Scores(
        0,
        "validation",
        np.arange(count),
        np.zeros(count, np.int8),
        np.full(count, 10),
        np.ones(count),
        np.array(accuracy),
    )
    return Judged(scores, cost or Cost(bytes_up=400, bytes_down=800, samples=40), 4, trained, rounds, count)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("accuracy", 0.7),
        ("accuracy_worst", 0.5),
        ("accuracy_median", 0.7),
        ("accuracy_tail", 0.5),  # the worst tenth of three clients is one
        ("bytes_up", 2000),  # 100 a round, 20 rounds
        ("bytes_down", 4000),
        ("bytes", 6000),
        ("samples", 200),
    ],
)
def test_what_a_name_stands_for(name, value):
    assert aim_of(name).judge(judged()).value == pytest.approx(value)


def test_a_trial_is_judged_by_all_of_it():
    first = Objective("accuracy")
    criteria = Criteria.parse(first, ["bytes_up"], ["accuracy_worst >= 0.6", "bytes_up <= 4000"])
    trial = judged()
    score = criteria.judge(first.observe(trial.scores, 4, 3), trial)
    assert score.point == pytest.approx((-0.7, 2000))
    assert score.limited == pytest.approx((0.5, 2000))
    assert score.violation == pytest.approx(0.1 / 0.6)
    told = criteria.told(first, score)
    assert told["objectives"] == pytest.approx({"accuracy": 0.7, "bytes_up": 2000})
    assert told["constraints"] == pytest.approx({"accuracy_worst >= 0.6": 0.5, "bytes_up <= 4000": 2000})


def test_without_criteria_a_score_stays_as_it_is():
    first = Objective("accuracy")
    score = first.observe(judged().scores, 4, 3)
    assert Criteria().judge(score, judged()) is score
    assert Criteria().told(first, score) == {}


def test_what_is_not_known_breaks_a_constraint_and_cannot_be_ranked():
    first = Objective("accuracy")
    criteria = Criteria.parse(first, ["accuracy_worst"], ["accuracy_worst >= 0.1"])
    trial = judged(accuracy=())
    score = criteria.judge(first.observe(trial.scores, 4, 3), trial)
    assert score.violation == math.inf
    assert score.rank_value == math.inf


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bytes_up < 3", "written 'name <= number'"),
        ("bytes_up <= lots", "'lots' is no finite number"),
        ("bytes_up <= inf", "no finite number"),
        ("bites_up <= 3", "unknown objective 'bites_up' (did you mean 'bytes_up'?)"),
        (3, "not 3"),
    ],
)
def test_a_constraint_that_cannot_be_says_how_to_write_it(text, said):
    with pytest.raises(InputError) as error:
        Constraint.parse(text)
    assert said in str(error.value)
