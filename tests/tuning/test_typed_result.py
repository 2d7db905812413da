"""Results are typed objects that are mappings too."""

import inspect
import json

import pytest

import fedhpo as fh
from fedhpo.protocol.outcome import Outcome
from fedhpo.run import open_read
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    where = tmp_path_factory.mktemp("typed") / "run"
    method = fh.RandomSearch(trials=3)
    return fh.tune(ToyFederation(clients=8), SPACE, method, rounds=4, cohort=4, run=where, objective="loss")


def test_a_trial_is_an_object_and_a_row(result):
    trial = result.trials[1]
    assert isinstance(trial, fh.Trial)
    assert (
        (trial.number, trial.status, trial.round)
        == (1, "finished", 4)
        == (
            trial["trial"],
            trial["status"],
            trial["rounds"],
        )
    )
    assert trial.score == trial["score"]
    assert trial.config == fh.Config(client={"lr": trial["client.lr"]})
    assert json.loads(json.dumps(trial)) == trial == dict(trial)
    assert trial.rounds == 4
    with pytest.raises(AttributeError, match="no attribute 'sccore'"):
        trial.sccore  # noqa: B018


def test_gain_and_costs_have_attributes(result):
    assert isinstance(result.gain, fh.Gain)
    assert result.gain.value == result.gain["value"]
    assert result.cost.rounds == result.cost["rounds"] == 12
    assert fh.TestScores({"accuracy": 0.5}).accuracy == 0.5


def test_one_reader_for_kept_and_fresh_results(result):
    with open_read(result.run) as run:
        kept = run.result()
    assert isinstance(kept, Outcome)
    assert kept == json.loads((result.run / "result.json").read_text(encoding="utf-8"))
    assert kept.best.trial == result.facts.best.trial
    assert [one.trial for one in kept.trials] == [0, 1, 2]
    assert type(fh.load_run(result.run).facts) is type(result.facts) is Outcome


def test_tune_has_no_internal_parameters():
    names = list(inspect.signature(fh.tune).parameters)
    assert not [name for name in names if name.startswith(("study", "_")) or name == "origin"]


def test_callbacks_see_trials():
    seen = []

    def note(event: fh.Event) -> None:
        seen.extend(event.trials)

    fh.tune(ToyFederation(clients=8), SPACE, fh.RandomSearch(trials=2), rounds=2, cohort=4, callbacks=[note])
    assert seen
    assert all(isinstance(trial, fh.Trial) for trial in seen)
