"""`tune`: what it returns, what it refuses, how it stops and goes on."""

import dataclasses
import itertools
import json
import math
import os
import signal
import time
from collections import Counter

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.run_errors import RunError
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.run import Run, open_read
from fedhpo.search.events import TuningError
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
BUDGET = {"rounds": 8, "total": 48, "cohort": 4}


def tune(federation=None, method=None, **options):
    return fh.tune(federation or ToyFederation(), SPACE, method or fh.SHA(trials=9), **(BUDGET | options))


def facts(result):
    return {name: value for name, value in result.facts.items() if name != "times"}


def test_trial_zero_is_the_users_own_config():
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=0.7)}, server={"lr": 0.9})
    result = fh.tune(ToyFederation(), space, "random", rounds=2, total=8, cohort=3)
    assert result.trials[0]["client.lr"] == 0.7
    assert result.trials[0]["server.lr"] == 0.9


def test_enqueued_configs_come_next_and_are_completed():
    result = tune(enqueue=[{"client": {"lr": 0.2}}, {"server": {"lr": 0.6}}])
    assert result.trials[1]["client.lr"] == 0.2
    assert result.trials[1]["server.lr"] == SPACE.default().server["lr"]
    assert result.trials[2]["server.lr"] == 0.6


def test_random_search_spends_the_total_and_takes_the_best():
    result = tune(ToyFederation(noise=0.0), fh.RandomSearch())
    assert len(result.trials) == 6
    assert {row["rounds"] for row in result.trials} == {8}
    assert result.cost["rounds"] == 48
    assert result.best_score == max(row["score"] for row in result.trials)
    assert result.best_config.flat()["client.lr"] == result.trials[result.facts["best"]["trial"]]["client.lr"]


def test_grid_search_tries_every_combination():
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)}, server={"lr": fh.Choice([0.5, 1.0])})
    result = fh.tune(ToyFederation(), space, fh.GridSearch(points=2), rounds=2, total=20, cohort=3)
    tried = {(row["client.lr"], row["server.lr"]) for row in result.trials}
    default = space.default()
    corners = {(0.01, 0.5), (0.01, 1.0), (1.0, 0.5), (1.0, 1.0)}
    assert tried == corners | {(default.client["lr"], default.server["lr"])}


def test_selection_is_by_a_fresh_score_not_the_best_ever_seen():
    """With noise only, the winner's reported score is the last one measured, at its last round."""
    result = tune(ToyFederation(noise=0.4))
    best = result.facts["best"]
    assert best["validation"]["round"] == best["rounds"] == 8
    rows = [r for r in result.history if r["trial"] == best["trial"] and r["kind"] == "evaluate"]
    last = [row for row in rows if row["split"] == "validation"][-1]
    assert best["validation"]["value"] == pytest.approx(last["accuracy"])


def test_gain_over_trial_zero_at_equal_rounds():
    result = tune(ToyFederation(noise=0.0))
    gain = result.gain
    own, best = result.facts["trials"][0], result.facts["best"]
    assert gain["round"] == own["rounds"]
    values = {}
    for row in result.history:
        if row["kind"] == "evaluate" and row["round"] == gain["round"] and row["split"] == "validation":
            values.setdefault(row["trial"], row["accuracy"])
    assert gain["value"] == pytest.approx(values[best["trial"]] - values[0])
    assert gain["standard_error"] >= 0


def test_baseline_trains_trial_zero_to_the_end_on_top_of_the_total():
    plain, compared = (
        tune(ToyFederation(noise=0.0), fh.SHA(trials=9, finalists=1), seed=2, **options)
        for options in ({}, {"baseline": True})
    )
    assert plain.facts["trials"][0]["rounds"] < 8
    assert compared.facts["baseline"]["rounds"] == 8
    assert compared.gain["round"] == 8
    assert compared.cost["baseline_rounds"] == 8 - plain.facts["trials"][0]["rounds"]
    assert compared.best_config == plain.best_config
    expected = compared.best_score - compared.facts["baseline"]["validation"]["value"]
    assert compared.gain["value"] == pytest.approx(expected)
    assert compared.facts["baseline"]["test"] is not None


def test_test_data_is_asked_for_only_when_everything_is_decided():
    result = tune()
    kinds = [(row["kind"], row["split"]) for row in result.history]
    first = kinds.index(("evaluate", "test"))
    assert all(kind == ("evaluate", "test") for kind in kinds[first:])
    assert result.test["clients"] == 20


def test_subsampled_scores_carry_their_error():
    result = tune(evaluation=fh.Evaluator(clients=5))
    assert result.facts["best"]["validation"]["clients"] == 5
    assert result.facts["best"]["validation"]["standard_error"] > 0


def test_same_seed_same_result_other_seed_another():
    assert facts(tune(seed=3)) == facts(tune(seed=3))
    assert facts(tune(seed=3)) != facts(tune(seed=4))


def test_loss_and_error_are_minimised():
    for metric in ("loss", "error"):
        result = tune(ToyFederation(noise=0.0), fh.RandomSearch(), objective=metric)
        assert result.best_score == min(row["score"] for row in result.trials)
        assert result.facts["objective"]["direction"] == "minimize"


def test_a_finished_run_comes_back_at_once(tmp_path):
    first = tune(run=tmp_path / "a")
    again = tune(run=tmp_path / "a")
    assert facts(first) == facts(again)
    assert json.loads((tmp_path / "a" / "result.json").read_text())["status"] == "finished"


def test_another_study_in_the_same_directory_is_refused(tmp_path):
    tune(run=tmp_path / "a")
    with pytest.raises(fh.InputError, match=r"holds another study.*seed"):
        tune(run=tmp_path / "a", seed=1)


class StopAt:
    """A callback that stops at the n-th new event."""

    def __init__(self, number):
        self.left = number

    def __call__(self, event):
        if not event.replayed and event.kind in ("start", "round", "evaluate"):
            self.left -= 1
        return self.left == 0


@pytest.mark.parametrize("method", [fh.SHA(trials=9), fh.RandomSearch(), fh.GridSearch(points=2)])
def test_stopped_by_callbacks_again_and_again_ends_in_the_same_result(tmp_path, method):
    unbroken = tune(ToyFederation(missing=0.2), method)
    stops = 0
    while True:
        callback = StopAt(1 + stops % 4)
        result = tune(ToyFederation(missing=0.2), method, run=tmp_path / "a", callbacks=[callback])
        if result.status == "finished":
            break
        assert result.facts["reason"] == "a callback asked to stop"
        stops += 1
    assert stops > 3
    assert facts(result) == facts(unbroken)


def test_a_stopped_run_names_the_best_so_far(tmp_path):
    def after_first_rung(event):
        return event.kind == "evaluate"

    result = tune(run=tmp_path / "a", callbacks=[after_first_rung])
    assert result.status == "stopped"
    scored = [row for row in result.trials if row["score"] is not None]
    assert result.best_score == max(row["score"] for row in scored)
    nothing = tune(callbacks=[lambda event: True])
    with pytest.raises(fh.InputError, match=r"before any trial was scored; nothing was kept: .* run="):
        nothing.best_config  # noqa: B018
    kept = tune(run=tmp_path / "b", callbacks=[lambda event: True])
    with pytest.raises(fh.InputError, match=r"resume it: the same call with run='.*b' goes on"):
        kept.best_config  # noqa: B018
    assert "no trial was scored" in str(nothing)


def test_a_finished_run_that_is_called_again_took_no_more_time(tmp_path):
    first = tune(run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        seconds = run.facts()["active_seconds"]
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "a").glob("*.[jc]s*")}
    assert len(before) == 3  # study.json, result.json, history.csv
    again = tune(run=tmp_path / "a")
    assert again.facts["times"] == first.facts["times"]
    assert {file: file.stat().st_mtime_ns for file in before} == before
    with open_read(tmp_path / "a") as run:
        assert run.facts()["active_seconds"] == seconds


def test_stop_tuning_may_be_raised():
    def stop(event):
        raise fh.StopTuning("enough")

    assert tune(callbacks=[stop]).facts["reason"] == "enough"


def test_time_limit(tmp_path):
    slow = ToyFederation(seconds=0.05)
    result = tune(slow, run=tmp_path / "a", timeout=0.3)
    assert result.status == "stopped"
    assert "0.3 s" in result.facts["reason"]
    assert tune(ToyFederation(), run=tmp_path / "a").status == "finished"


def test_ctrl_c_stops_after_the_round_and_resumes(tmp_path):
    unbroken = tune(ToyFederation(seconds=0.0))
    rounds = itertools.count(1)

    def interrupt(event):
        if event.kind == "round" and next(rounds) == 5:
            os.kill(os.getpid(), signal.SIGINT)

    result = tune(ToyFederation(), run=tmp_path / "a", callbacks=[interrupt], on_interrupt="return")
    assert result.status == "stopped"
    assert result.facts["reason"] == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert facts(tune(ToyFederation(), run=tmp_path / "a")) == facts(unbroken)


def test_trials_that_fail_rank_last_and_say_why():
    class Diverging(ToyFederation):
        """Trials with a larger learning rate give updates that are not finite."""

        def round(self, work):
            reports = super().round(work)
            return [r if w.client["lr"] < 0.05 else _hopeless(r) for r, w in zip(reports, work, strict=True)]

    result = tune(Diverging(), fh.RandomSearch())
    failed = [t for t in result.facts["trials"] if t["status"] == "failed"]
    assert failed
    assert all(t["config"]["client"]["lr"] >= 0.05 for t in failed)
    assert all("not finite" in t["reason"] for t in failed)
    assert all(t["score"] is None for t in failed)


def _hopeless(report):
    return dataclasses.replace(
        report,
        applied=False,
        status=np.ones(len(report.cohort), np.int8),
        reasons=dict.fromkeys(range(len(report.cohort)), Reason(Why.DIVERGED)),
    )


def test_a_round_without_replies_is_repeated_with_another_cohort():
    result = tune(ToyFederation(missing=0.8))
    assert result.cost["repeated_rounds"] > 0
    cohorts = [row for row in result.history if row["kind"] == "round" and not row["applied"]]
    assert cohorts


@pytest.mark.parametrize("method", [fh.SHA(trials=9), fh.RandomSearch(), fh.Hyperband()])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_repeated_rounds_never_exceed_the_total(method, seed):
    """Repeated rounds are paid from the total: training then ends earlier, and the run still ends well."""
    result = tune(ToyFederation(missing=0.75, seed=seed), method, seed=seed)
    assert result.cost["repeated_rounds"] > 0
    assert result.cost["rounds"] <= 48
    assert result.facts["best"]["validation"]["value"] > 0


def test_when_every_trial_fails_the_error_says_why():
    with pytest.raises(TuningError, match=r"no trial could be trained.*no client replied"):
        tune(ToyFederation(missing=1.0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cohort": 21}, "cohort is 21, but only 20 clients"),
        ({"cohort": 0}, "cohort must be"),
        ({"rounds": 0}, "rounds must be"),
        ({"total": 2.5}, "total must be"),
        ({"timeout": -1}, "timeout must be"),
        ({"total": 10, "rounds": 8}, "at least"),
        ({"method": "shaa"}, "did you mean 'sha'"),
        ({"method": 3}, "method must be"),
        ({"objective": "acc"}, "unknown metric"),
        ({"enqueue": [{"client": {"lr": 99.0}}]}, "client.lr"),
        ({"enqueue": [{"client": {"rl": 0.1}}]}, "client.rl|'rl'"),
    ],
)
def test_mistakes_are_named(wrong, message):
    with pytest.raises(fh.InputError, match=message):
        fh.tune(ToyFederation(), SPACE, **(BUDGET | {"method": fh.SHA(trials=9)} | wrong))


def test_total_is_ten_trainings_unless_given():
    result = fh.tune(ToyFederation(), SPACE, "sha", rounds=40, cohort=4)
    assert result.cost["budget"] == {"rounds": 400}
    # 54 -> 18 -> 6 -> 3 trials: 36 end at round 4, 12 at 8, 3 at 13, and three train to the end.
    assert Counter(row["rounds"] for row in result.trials) == {4: 36, 8: 12, 13: 3, 40: 3}
    assert result.cost["unspent_rounds"] == 400 - (54 * 4 + 18 * 4 + 6 * 5 + 3 * 27) == 1


def test_a_run_in_use_is_refused(tmp_path):
    refused = []

    def second(event):
        if not refused:
            with pytest.raises(RunError, match=r"in use|another process|held"):
                tune(run=tmp_path / "a")
            refused.append(True)

    tune(run=tmp_path / "a", callbacks=[second])
    assert refused


def test_overhead_of_the_search_itself_is_small():
    begin = time.perf_counter()
    fh.tune(ToyFederation(), SPACE, rounds=40, cohort=4)
    assert time.perf_counter() - begin < 20


def test_result_reads_well():
    result = tune(ToyFederation(noise=0.0), baseline=True, seed=2)
    assert "over your own config (trial 0), both at round 8" in str(result)
    text = result.export("flower")
    import tomllib

    config = tomllib.loads(text)["tool"]["flwr"]["app"]["config"]
    assert config["client"]["lr"] == result.best_config.client["lr"]
    assert config["num-server-rounds"] == 8
    assert json.loads(result.export("json")) == result.best_config.to_dict()
    with pytest.raises(fh.InputError, match="unknown export"):
        result.export("yaml")
    assert len(str(result.trials).splitlines()) == 10
    assert not math.isnan(result.best_score)


def test_the_number_of_workers_does_not_change_the_result(tmp_path):
    """Same seed, 1 and 2 workers: result.json is identical but for times."""
    data = fh.load("digits", clients=20, partition={"kind": "dirichlet", "alpha": 0.5})
    space = fh.Space(
        client={
            "lr": fh.Float(1e-3, 1.0, log=True),
            "batch_size": fh.Ordinal([8, 16, 32]),
            "dropout": fh.Choice([0.0, 0.2]),
        },
        model={"hidden": fh.Ordinal([16, 32])},
    )
    found = []
    for workers in (1, 2):
        with fh.simulate("mlp", data, workers=workers) as federation:
            run = tmp_path / str(workers)
            fh.tune(federation, space, fh.SHA(trials=9), rounds=6, total=30, cohort=8, run=run)
            assert federation.describe()["worker_kind"] == "processes"
        result = json.loads((tmp_path / str(workers) / "result.json").read_text())
        assert result.pop("times")["wall_seconds"] > 0
        found.append(result)
    assert found[0] == found[1]


def test_a_tuned_model_is_the_one_that_was_scored(tmp_path):
    data = fh.load("digits", clients=10)
    space = fh.Space(client={"lr": fh.Float(1e-2, 1.0, log=True)})
    for _ in range(2):  # trained, and brought back from a finished run
        with fh.simulate("mlp", data, workers=0) as federation:
            result = fh.tune(
                federation, space, fh.RandomSearch(trials=2), rounds=4, total=8, cohort=5, run=tmp_path / "a"
            )
        import torch

        rows = data.test.indices
        x = (
            torch.as_tensor(data.x[rows]).float() - (0 if data.mean is None else torch.as_tensor(data.mean))
        ) / (1 if data.std is None else torch.as_tensor(data.std))
        with torch.no_grad():
            correct = result.model.eval()(x.float()).argmax(1).numpy() == data.y[rows]
        assert correct.mean() == pytest.approx(result.test["accuracy"])


@pytest.mark.parametrize("kept", [True, False])
def test_the_history_is_read_once(tmp_path, monkeypatch, kept):
    read = []
    plain = Run.history
    monkeypatch.setattr(Run, "history", lambda self: read.append(1) or plain(self))
    result = tune(run=tmp_path / "a" if kept else None)
    assert len(read) == 1
    assert sum(row["kind"] == "round" for row in result.history) == result.cost["rounds"]
