"""FedPop's exchange with privacy: paid evaluations, and nothing else of clients' scores."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods.fedpop.evolution import bottom_and_top
from fedhpo.run import open_read
from fedhpo.run.codec import unpack
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
POPULATION = {"population": 6, "local": False, "interval": 3}


def tune(epsilon=50.0, federation=None, *, clients=3, mechanism="laplace", settings=None, **options):
    evaluation = fh.Evaluator(clients=clients, privacy=fh.Privacy(epsilon, mechanism=mechanism))
    budget = {"rounds": 10, "total": 60, "cohort": 4, "evaluation": evaluation}
    method = fh.FedPop(**(POPULATION | (settings or {})))
    return fh.tune(federation or ToyFederation(), SPACE, method, **(budget | options))


def events(path, kind):
    with open_read(path) as run:
        found = [event for event in run.record.events() if event.kind == kind]
    return [(json.loads(event.call), json.loads(event.result)) for event in found]


def copied(result):
    """The trials that became copies of others."""
    return [trial["trial"] for trial in result.facts["trials"] if trial["path"]]


def test_one_release_per_exchange_and_one_for_the_choice(tmp_path):
    """Rounds 3, 6 and 9 of 10: six trials each time, and at the end; 24 scores at 3 of 20 clients."""
    result = tune(run=tmp_path / "a")
    released = events(tmp_path / "a", "decide release")
    rounds = [[round for _, round in call["trials"]] for call, _ in released]
    assert rounds == [[round] * 6 for round in (3, 6, 9, 10)]
    said = result.facts["privacy"]
    assert (said["evaluations"], said["clients"]["planned"]) == (24, math.ceil(24 * 3 / 20))
    assert said["epsilon_spent"] == pytest.approx(50.0)
    for call, _ in released:  # cohorts of a comparison are disjoint
        asked = [client for cohort in call["asked"] for client in cohort]
        assert len(asked) == len(set(asked)) == 18


def test_who_is_copied_follows_from_released_values(tmp_path):
    tune(run=tmp_path / "a")
    released = [answer["values"] for _, answer in events(tmp_path / "a", "decide release")]
    exchanges = [answer for _, answer in events(tmp_path / "a", "decide exchange")]
    assert len(exchanges) == 3
    for values, copies in zip(released, exchanges, strict=False):
        bottom, top = bottom_and_top([-value for value in values], 3)
        assert {copy["trial"] for copy in copies} == set(bottom)
        assert {copy["source"] for copy in copies} <= set(top)
        assert all(copy["score"] == values[copy["trial"]] for copy in copies)
        assert all(copy["source_score"] == values[copy["source"]] for copy in copies)


class Watched(ToyFederation):
    """Remembers every score that a client said, inside rounds too."""

    def __init__(self, **options):
        super().__init__(**options)
        self.said = set()

    def note(self, item, names):
        for name in names:
            self.said.update(getattr(item, name).tolist())
            self.said.add(float(np.mean(getattr(item, name))))

    def round(self, work):
        reports = super().round(work)
        for report in reports:
            self.note(report, ("loss_before", "loss_after", "accuracy_before", "accuracy_after"))
        assert all(not piece.scores for piece in work)  # none is asked for
        return reports

    def evaluate(self, trials, clients, split="validation"):
        found = super().evaluate(trials, clients, split)
        for scores in found:
            self.note(scores, ("loss", "accuracy"))
        return found


def numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {number for inner in value for number in numbers(inner)}
    return {value} if isinstance(value, float) else set()


def test_no_score_that_was_not_paid_for_is_kept_or_shown(tmp_path, capsys):
    federation = Watched()
    result = tune(1.0, federation, run=tmp_path / "a", progress=True)
    said = {score for score in federation.said if math.isfinite(score) and score not in (0.0, 1.0)}
    assert len(said) > 50
    kept = numbers(result.facts) | numbers(json.loads((tmp_path / "a" / "result.json").read_text()))
    with open_read(tmp_path / "a") as run:
        for event in run.record.events():
            if event.kind == "round":
                for report in unpack(event.result):
                    assert np.isnan(report.loss_after).all()
                    assert np.isnan(report.accuracy_before).all()
            else:
                kept |= numbers(json.loads(event.call)) | numbers(json.loads(event.result or b"null"))
    assert not said & kept
    page = fh.write_report([tmp_path / "a"], tmp_path / "report.html").read_text()
    shown = capsys.readouterr()
    texts = (page, shown.out, shown.err, (tmp_path / "a" / "history.csv").read_text(), str(result))
    assert not any(repr(score) in text for score in said for text in texts)


def test_stopped_again_and_again_it_ends_the_same(tmp_path):
    unbroken, stops = tune(run=tmp_path / "unbroken"), 0
    while True:
        left = iter(range(2))
        stop = lambda event, left=left: not event.replayed and next(left, None) is None  # noqa: E731
        result = tune(run=tmp_path / "a", callbacks=[stop])
        if result.status == "finished":
            break
        stops += 1
    assert stops > 3
    same = [{k: v for k, v in one.facts.items() if k != "times"} for one in (unbroken, result)]
    assert same[0] == same[1]


@pytest.mark.parametrize("settings", [{}, {"asynchronous": True}])
def test_the_users_own_config_is_scored_at_the_end_only(tmp_path, settings):
    """It trains again from the beginning, through rounds at which the population had an exchange."""
    result = tune(settings=settings, run=tmp_path / "a", baseline=True)
    [compared] = [call["trials"] for call, _ in events(tmp_path / "a", "decide compare")]
    assert result.status == "finished"
    assert [round for _, round in compared] == [10, 10]
    assert result.facts["privacy"]["evaluations"] == 24


@pytest.mark.parametrize("settings", [{"asynchronous": True}, {"schedule": "halving", "eliminations": 1}])
def test_it_stays_within_its_plan(settings):
    result = tune(settings=settings, federation=ToyFederation(missing=0.1), total=80)
    said = result.facts["privacy"]
    assert result.status == "finished"
    assert said["clients"]["most"] <= said["clients"]["planned"]
    assert said["epsilon_spent"] <= 50.0 * (1 + 1e-9)
    assert copied(result)


class Away(ToyFederation):
    """No client replies to an evaluation before round 10."""

    def evaluate(self, trials, clients, split="validation"):
        found = super().evaluate(trials, clients, split)
        away = np.full(len(clients), 2, np.int8)
        early = {trial for trial in trials if self.state(trial).facts["round"] < 10}
        return [replace(scores, status=away) if scores.trial in early else scores for scores in found]


def test_a_trial_without_replies_has_no_score_and_stays():
    assert copied(tune())
    assert not copied(tune(federation=Away()))


@pytest.mark.parametrize("mechanism", ["topk", "permute-and-flip", "repeated"])
def test_choices_tell_no_worst_trials(mechanism):
    with pytest.raises(fh.InputError, match="fedpop's exchange needs the worst and the best trials"):
        tune(mechanism=mechanism)
