"""FedEx under every schedule, stopped and resumed, saved and started from."""

import json
import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods import Tuner
from fedhpo.methods.fedex import policy as policies
from fedhpo.methods.fedex.auto import AUTO
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.schedules import FixedLength, Halving, Hyperband
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
BUDGET = {"rounds": 9, "total": 54, "cohort": 5}
METHODS = {
    "alone": fh.FedEx(schedule="fixed", trials=1, arms=5, eps=1.0),
    "random": fh.FedEx(schedule="fixed", arms=5, eps=0.3),
    "halving": fh.FedEx(trials=9, arms=5, eps=0.3, steps="adaptive", gamma=0.5),
    "hyperband": fh.FedEx(schedule="hyperband", arms=5, eps=0.3, eliminate=0.2),
    "landmarks": fh.FedEx(trials=4, arms=5, eps=1.0, landmarks=3, landmark_rounds=2),
    "auto": fh.FedEx(trials=4, arms=5, **AUTO),
}


def tune(method, federation=None, space=SPACE, **options):
    return fh.tune(federation or ToyFederation(), space, method, **(BUDGET | options))


def facts(result):
    return {name: value for name, value in result.facts.items() if name != "times"}


@pytest.mark.parametrize("name", METHODS)
def test_every_schedule_runs_and_keeps_to_the_total(name):
    result = tune(METHODS[name])
    assert result.cost["rounds"] <= 54
    assert result.cost["unspent_rounds"] == 54 - result.cost["rounds"]
    assert result.cost["repeated_rounds"] == 0
    best = next(one for one in result.policies if one["trial"] == result.facts["best"]["trial"])
    assert len(best["rounds"]) == 1 + result.facts["best"]["rounds"]
    assert result.best_config.client == best["arms"][best["best"]]
    assert result.policy.best == result.best_config.client
    assert result.policy.weights.max() == pytest.approx(max(best["weights"]))


@pytest.mark.parametrize(
    "schedule", [FixedLength(trials=2), Halving(trials=6), Hyperband()], ids=["fixed", "halving", "hyperband"]
)
def test_a_tuner_composes_the_same(schedule):
    result = tune(Tuner(schedule, policy=policies.FedExPolicy(arms=4)))
    assert {one["trial"] for one in result.policies} == {row["trial"] for row in result.trials}
    assert all(len(one["arms"]) == 4 for one in result.policies)


@pytest.mark.parametrize("tuned", [False, True])
def test_it_learns_for_a_share_of_the_rounds_and_then_everybody_gets_the_best_arm(tuned):
    method = fh.FedEx(schedule="fixed", trials=1, arms=5, eps=1.0, until=1.0 if tuned else 0.3)
    space = fh.Space(client=SPACE.scope("client"), policy={"until": 0.3}) if tuned else SPACE
    [policy] = tune(method, space=space, rounds=10, total=10).policies
    weights = [one["log_weights"] for one in policy["rounds"]]
    assert weights[2] != weights[3]  # round 3 of 10 is the last one that counts
    assert all(later == weights[3] for later in weights[4:])
    best = int(np.argmax(weights[3]))
    assert all(one["drawn"] == [best] * 5 for one in policy["rounds"][4:])
    assert any(arm != best for one in policy["rounds"][1:4] for arm in one["drawn"])


class StopAt:
    """A callback that stops at the n-th new event."""

    def __init__(self, number):
        self.left = number

    def __call__(self, event):
        if not event.replayed and event.kind in ("start", "round", "evaluate"):
            self.left -= 1
        return self.left == 0


@pytest.mark.parametrize("name", METHODS)
def test_stopped_again_and_again_ends_in_the_same_result(tmp_path, name):
    federation = {"missing": 0.2, "noise": 0.1}
    unbroken = tune(METHODS[name], ToyFederation(**federation))
    result = None
    for step in (1, 2, 5, 7, 100):
        result = tune(
            METHODS[name], ToyFederation(**federation), run=tmp_path / "a", callbacks=[StopAt(step)]
        )
        if result.status == "finished":
            break
    assert facts(result) == facts(unbroken)
    assert result.policy == unbroken.policy
    saved = json.loads((tmp_path / "a" / "result.json").read_text())
    assert saved["policies"] == unbroken.facts["policies"]


def test_it_finds_the_better_rates():
    """Without noise the best rate is 0.1; among arms over four decades the weight goes to the near ones."""
    method = fh.FedEx(
        schedule="fixed", trials=1, arms=8, eps=1.0, steps="adaptive", difference=True, gamma=1.0
    )
    result = tune(method, ToyFederation(noise=0.0), rounds=30, total=30, cohort=10)
    far = [abs(math.log10(arm["lr"] / 0.1)) for arm in result.policy.arms]
    assert abs(math.log10(result.policy.best["lr"] / 0.1)) <= sorted(far)[1]
    assert np.corrcoef(far, result.policy.log_weights)[0, 1] < -0.5


def test_landmarks_are_paid_for_and_keep_their_order():
    result = tune(METHODS["landmarks"], ToyFederation(noise=0.0))
    assert result.cost["rounds_before"] == 6
    alone = {row["trial"] for row in result.history} - {row["trial"] for row in result.trials}
    assert len(alone) == 3
    first = result.policies[0]
    order = first["landmarks"]
    assert len(order) == 3
    distances = [abs(math.log10(first["arms"][arm]["lr"] / 0.1)) for arm in order]
    assert distances == sorted(distances)
    last = first["rounds"][-1]["log_weights"]
    assert [last[arm] for arm in order] == sorted((last[arm] for arm in order), reverse=True)


def test_landmarks_that_cannot_be_paid_are_refused():
    with pytest.raises(InputError, match="does not pay for one training"):
        tune(fh.FedEx(schedule="fixed", arms=9, landmarks=6, landmark_rounds=8))


def test_hyperband_counts_landmarks_once():
    method = fh.FedEx(schedule="hyperband", arms=5, landmarks=2, landmark_rounds=3)
    assert tune(method).cost["rounds"] > 54 - 9 - 6


def test_a_saved_policy_starts_another_search(tmp_path):
    learned = tune(METHODS["alone"]).policy
    path = learned.save(tmp_path / "policy.json")
    assert LearnedPolicy.load(path) == learned
    for start in (learned, str(path)):
        result = tune(fh.FedEx(schedule="fixed", trials=2, start=start), seed=5)
        for one in result.policies:
            assert [fh.Config(client=arm).client for arm in one["arms"]] == list(learned.arms)
            assert one["rounds"][0]["log_weights"] == pytest.approx(np.log(learned.weights), abs=1e-6)


def test_a_changed_policy_file_is_another_study(tmp_path):
    path = tmp_path / "policy.json"
    LearnedPolicy.uniform([{"lr": 0.1}, {"lr": 0.2}]).save(path)
    tune(fh.FedEx(schedule="fixed", start=str(path)), run=tmp_path / "run")
    LearnedPolicy.uniform([{"lr": 0.1}, {"lr": 0.3}]).save(path)
    with pytest.raises(InputError, match="holds another study"):
        tune(fh.FedEx(schedule="fixed", start=str(path)), run=tmp_path / "run")


def test_a_policy_of_another_space_is_refused():
    start = LearnedPolicy.uniform([{"rate": 0.1}, {"rate": 0.2}])
    with pytest.raises(InputError, match=r"client\.rate|client\.lr"):
        tune(fh.FedEx(schedule="fixed", start=start))


def test_a_policy_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "policy.json").write_text("[1, 2]")
    with pytest.raises(InputError, match="must be a saved policy with format"):
        fh.FedEx(start=str(tmp_path / "policy.json"))
    (tmp_path / "policy.json").write_text('{"format": "fedhpo policy 1", "arms": [{"lr": 1}]}')
    with pytest.raises(InputError, match="log_weights"):
        fh.FedEx(start=str(tmp_path / "policy.json"))


def test_go_on_training_with_configs_sampled_from_a_policy():
    policy = LearnedPolicy(({"lr": 0.1}, {"lr": 0.2}), (0.0, -50.0))
    assert policy.sample(20, np.random.default_rng(0)) == [{"lr": 0.1}] * 20


def test_knobs_are_tuned_with_the_rest():
    space = fh.Space(
        client={"lr": fh.Float(1e-3, 10.0, log=True)},
        policy={"gamma": fh.Float(0.0, 1.0), "arms": fh.Choice([3, 4, 5])},
    )
    result = tune(fh.FedEx(schedule="fixed", trials=6), space=space)
    arms = [len(one["arms"]) for one in result.policies]
    assert arms == [row["policy.arms"] for row in result.trials]
    assert len(set(arms)) > 1


def test_an_unknown_knob_is_refused_before_anything_is_written(tmp_path):
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, policy={"gama": fh.Float(0.0, 1.0)})
    with pytest.raises(InputError, match="did you mean 'gamma'"):
        tune(fh.FedEx(schedule="fixed"), space=space, run=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_federation_without_configs_for_each_client_is_refused():
    toy = ToyFederation()
    toy.capabilities = toy.capabilities - {"client configs"}
    with pytest.raises(InputError, match="fedex needs a federation with: client configs"):
        tune(fh.FedEx(schedule="fixed"), toy)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "hyperband", "trials": 3}, "trials is up to hyperband"),
        ({"schedule": "sha"}, "unknown schedule 'sha'; known: fixed, halving, hyperband"),
        ({"gamma": 2.0}, "gamma must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        fh.FedEx(**settings)


def test_a_study_file_names_it():
    study = fh.Study.from_dict(
        {
            "data": {"name": "digits", "clients": 20},
            "model": {"name": "mlp"},
            "space": {
                "client": {"lr": {"low": 0.01, "high": 1.0, "log": True}},
                "policy": {"gamma": {"low": 0.0, "high": 1.0}},
            },
            "method": {"name": "fedex", "schedule": "fixed", "trials": 2, "steps": "adaptive", "eps": 1},
            "budget": {"rounds": 10},
        }
    )
    assert study.method == fh.FedEx(schedule="fixed", trials=2, steps="adaptive", eps=1.0)
