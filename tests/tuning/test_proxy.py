"""Proxy search: search on public data, one training at the clients."""

import json

import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.study import Study
from fedhpo.testing import ToyFederation
from fedhpo.tuning.proxy import ProxySearch

SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True, default=0.011)})
BUDGET = {"rounds": 6, "total": 6, "cohort": 4}


def tune(proxy, **options):
    method = ProxySearch(proxy, fh.RandomSearch(trials=5), length=4, total=20, cohort=3)
    return fh.tune(ToyFederation(noise=0.0), SPACE, method, **{**BUDGET, **options})


def test_the_config_found_on_the_proxy_is_trained_once():
    alone = fh.tune(ToyFederation(noise=0.0), SPACE, fh.RandomSearch(trials=5), rounds=4, total=20, cohort=3)
    result = tune(ToyFederation(noise=0.0))
    assert result.best_config == alone.best_config
    assert [(t["trial"], t["rounds"]) for t in result.trials] == [(0, 0), (1, 6)]
    assert result.cost["rounds"] == 6
    proxy = result.facts["proxy"]
    assert proxy["config"] == alone.best_config.to_dict()
    assert proxy["trials"] == 5
    assert (proxy["cost"]["rounds"], proxy["cost"]["bytes_down"], proxy["cost"]["bytes_up"]) == (20, 0, 0)
    assert proxy["cost"]["client_rounds"] == 60
    assert "no communication" in proxy["note"]
    assert result.gain is None  # trial 0 was not trained


def test_a_baseline_is_trained_where_it_is_wanted():
    result = tune(ToyFederation(noise=0.0), baseline=True)
    assert [(t["trial"], t["rounds"]) for t in result.trials] == [(0, 6), (1, 6)]
    assert result.gain["round"] == 6


def test_a_run_that_is_stopped_in_either_part_goes_on(tmp_path):
    whole = tune(ToyFederation(noise=0.0), run=tmp_path / "whole")

    def stop(event):
        return event.kind == "round" and event.search.ledger.cost.rounds == 3

    method = ProxySearch(
        ToyFederation(noise=0.0),
        fh.RandomSearch(trials=5, side_by_side=1),
        length=4,
        total=20,
        cohort=3,
        callbacks=[stop],
    )
    stopped = fh.tune(ToyFederation(noise=0.0), SPACE, method, run=tmp_path / "cut", **BUDGET)
    assert stopped.status == "stopped"
    assert stopped.facts["best"] is None
    going = ProxySearch(
        ToyFederation(noise=0.0), fh.RandomSearch(trials=5, side_by_side=1), length=4, total=20, cohort=3
    )
    again = fh.tune(ToyFederation(noise=0.0), SPACE, going, run=tmp_path / "cut", callbacks=[stop], **BUDGET)
    assert again.status == "stopped"
    assert again.facts["proxy"]["config"] == whole.facts["proxy"]["config"]
    done = fh.tune(ToyFederation(noise=0.0), SPACE, going, run=tmp_path / "cut", **BUDGET)
    assert done.status == "finished"
    assert done.facts["best"]["config"] == whole.facts["best"]["config"]
    assert done.best_score == whole.best_score


def test_the_proxy_federation_is_made_when_it_is_needed(tmp_path):
    made = []

    def make():
        made.append(1)
        return ToyFederation(noise=0.0)

    tune(make, run=tmp_path / "run")
    tune(make, run=tmp_path / "run")  # served from the record
    assert made == [1]


def test_a_private_score_is_released_once():
    evaluation = fh.Evaluator(privacy=fh.Privacy(epsilon=1.0))
    result = tune(ToyFederation(noise=0.0), evaluation=evaluation)
    assert result.facts["privacy"]["evaluations"] == 1
    assert result.facts["privacy"]["epsilon_spent"] == 1.0


STUDY = """
seed = 1
[data]
name = "digits"
clients = 10
[model]
name = "linear"
[space.client]
lr = { low = 0.001, high = 1.0, log = true }
[budget]
rounds = 4
cohort = 3
[proxy]
method = { trials = 3 }
[proxy.data]
name = "digits"
clients = 6
seed = 5
[proxy.budget]
total = 12
"""


def test_the_study_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert main(["tune", "study.toml", "--workers", "0", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "proxy search" in printed
    assert "12 rounds on digits, simulated by the server: no communication" in printed
    result = json.loads((tmp_path / "runs/study/result.json").read_text())
    assert result["method"]["name"] == "proxy"
    assert result["proxy"]["trials"] == 3
    assert result["cost"]["rounds"] == 4
    assert (tmp_path / "runs/study/proxy/result.json").is_file()
    assert "no communication" in (tmp_path / "runs/study/report.html").read_text()
    assert main(["resume", "runs/study", "--workers", "0", "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] == result["best"]
    assert main(["report", "runs/study/proxy"]) == 0


def study(**proxy):
    return {
        "data": {"name": "digits", "clients": 10},
        "model": {"name": "linear"},
        "space": {"client": {"lr": {"low": 0.001, "high": 1.0, "log": True}}},
        "budget": {"rounds": 4, "cohort": 3},
        "proxy": {"data": {"name": "digits"}, **proxy},
    }


def test_the_search_has_the_study_s_budget_unless_it_has_its_own():
    plain = Study.from_dict(study()).proxy_study
    assert (plain.file.budget.rounds, plain.file.budget.total, plain.file.budget.cohort) == (4, None, 3)
    assert plain.method == fh.RandomSearch()
    own = Study.from_dict(study(budget={"rounds": 2}, method={"name": "sha", "trials": 4})).proxy_study
    assert (own.file.budget.rounds, own.file.budget.cohort) == (2, 3)
    assert own.method == fh.SHA(trials=4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": {"name": "sha"}}, "method: leave it out; .* proxy.method"),
        ({"proxy": {"data": {"name": "digit"}}}, r"proxy\.data\.name: unknown data set 'digit'"),
        (
            {"proxy": {"data": {"name": "digits"}, "method": {"name": "shaa"}}},
            r"proxy\.method\.name: unknown",
        ),
        ({"proxy": {}}, r"proxy\.data"),
        ({"proxy": {"data": {"name": "digits"}, "budget": {"rounds": 0}}}, r"proxy\.budget\.rounds = 0"),
    ],
)
def test_mistakes_are_told_with_their_key(change, message):
    with pytest.raises(InputError, match=message):
        Study.from_dict({**study(), **change})
