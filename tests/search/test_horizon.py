"""Schedules of trials that are cut short end with the full training, or with their rung."""

from collections import defaultdict
from itertools import chain

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.federations.simulate import simulate
from fedhpo.protocol.federation import Work
from fedhpo.schedules.halving import cost_of, rungs_anew

HEARD: list[tuple[int, int, int]] = []


def listening(model, data, hyperparameters, context):
    """Training that moves nothing and writes down what it is told."""
    HEARD.append((context.trial, context.round, context.rounds))


def _data():
    return fh.load("digits", clients=6)


def _tuned(federation, method, horizon="rung", total=30, client=None):
    space = fh.Space(client={"lr": fh.Float(1e-2, 1.0, log=True), **(client or {})})
    return fh.tune(federation, space, method, rounds=9, total=total, cohort=2, horizon=horizon, seed=1)


COSINE = {"lr_schedule": "cosine"}
SHA = fh.SHA(trials=6, finalists=1)


def test_every_rung_begins_anew_and_hears_its_own_length():
    HEARD.clear()
    with simulate("mlp", _data(), workers=0, train=listening) as federation:
        result = _tuned(federation, SHA)
    sizes, ends = [6, 2, 1], rungs_anew(9, 30, [6, 2, 1])
    assert ends == [2, 4, 9]
    told = defaultdict(list)
    for trial, number, rounds in HEARD[1::2]:  # the preflight, then two clients a round
        told[trial].append((number, rounds))
    whole = [[(number, end) for number in range(end)] for end in ends]
    paths = [list(chain(*whole[:length])) for length in (1, 2, 3)]
    assert sorted(map(len, told.values())) == [2, 2, 2, 2, 6, 15]
    assert all(path in paths for path in told.values())
    assert result.cost["rounds"] == cost_of(ends, sizes, anew=True) == 29


def test_the_last_rung_is_the_full_training_and_its_scores_are_the_same():
    scores = []
    for horizon in ("full", "rung"):
        with simulate("mlp", _data(), workers=0) as federation:
            result = _tuned(federation, SHA, horizon, total=36, client=COSINE)
        scores.append({one.number: one.score for one in result.trials if one.round == 9})
    both = scores[0].keys() & scores[1].keys()
    assert both
    assert all(scores[0][number] == scores[1][number] for number in both)


def test_a_rung_is_on_the_schedule_of_its_length():
    """Three rounds of a cosine over three rounds, by hand, against a trial cut at three of nine."""
    with simulate("mlp", _data(), workers=0) as federation:
        federation.expect(9)
        ends = []
        for trial, work in enumerate(({"horizon": 3}, {})):
            federation.start(trial, {}, 1)
            for _ in range(3):
                client = {"lr": 0.5, **COSINE, **work}
                federation.round([Work(trial, [0, 1], client, horizon=None if work else 3)])
            ends.append([one.detach().numpy() for one in federation.model(trial).parameters()])
        assert all(map(np.array_equal, *ends))


@pytest.mark.parametrize("method", ["hyperband", "robust", "auto", "bohb"])
def test_methods_that_stop_trials_early_keep_their_total(method):
    with simulate("mlp", _data(), workers=0) as federation:
        result = _tuned(federation, method, total=40, client=COSINE)
    assert result.cost["rounds"] <= 40
    assert max(trial.round for trial in result.trials) == 9


@pytest.mark.parametrize(
    ("method", "client", "why"),
    [
        ("random", COSINE, "no trial is cut short"),
        ("fedex", COSINE, "no trial is cut short and could be trained anew"),
        (fh.SHA(eliminations=0), COSINE, "no trial is cut short"),
        ("sha", {}, "no client.lr_schedule ends with the training"),
        ("sha", {"lr_schedule": "step", "lr_step": 3}, "no client.lr_schedule ends with the training"),
        ("sha", {**COSINE, "horizon": 5}, "client.horizon = 5 says where schedules end"),
    ],
)
def test_a_horizon_without_effect_is_refused(method, client, why):
    with simulate("mlp", _data(), workers=0) as federation, pytest.raises(InputError, match=why):
        _tuned(federation, method, total=60, client=client)


def test_an_unknown_horizon_is_refused():
    with simulate("mlp", _data(), workers=0) as federation, pytest.raises(InputError, match="full, rung"):
        _tuned(federation, "sha", horizon="half")
