"""Runs over the same clients draw on one budget: refused before they begin, taken once, settled at last."""

import json
from collections import Counter

import pytest

import fedhpo as fh
from fedhpo.core.run_errors import BudgetError
from fedhpo.run import open_read
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
BUDGET = {"rounds": 4, "total": 12, "cohort": 4}


def tune(path, epsilon=1.0, total=None, *, federation=None, clients=None, method=None, **options):
    accounting = options.pop("accounting", "rotation")
    delta = 1e-3 if accounting == "pld" else 0.0
    held_out = options.pop("held_out", 0.0)
    privacy = fh.Privacy(
        epsilon, budget=path, total=total, accounting=accounting, delta=delta, held_out=held_out
    )
    evaluation = fh.Evaluator(clients=clients, privacy=privacy)
    method = method or fh.RandomSearch(trials=3)
    return fh.tune(federation or ToyFederation(), SPACE, method, evaluation=evaluation, **(BUDGET | options))


def test_twelve_runs_under_other_names_have_spent_twelve(tmp_path):
    path = str(tmp_path / "clients.privacy")
    for number in range(12):
        tune(path, total=12.5, run=tmp_path / str(number), seed=number)
    ledger = fh.PrivacyLedger(path)
    assert set(ledger.spent) == {str(client) for client in range(20)}
    assert ledger.highest[1] == pytest.approx(12.0)
    with pytest.raises(BudgetError, match=r"client '\d+' has spent 12 of 12.5 in earlier runs"):
        tune(path, run=tmp_path / "13", seed=13)
    assert not (tmp_path / "13").exists()
    assert tune(path, epsilon=0.5, run=tmp_path / "13").status == "finished"


def test_rotation_goes_on_where_it_stopped(tmp_path):
    """4 scores at 3 of 20 clients, five times: 60 places, 3 for each client."""
    path = str(tmp_path / "clients.privacy")
    for seed in range(5):
        result = tune(path, 1.0, 9.0, clients=3, seed=seed, method=fh.RandomSearch(trials=4), rounds=3)
        assert result.facts["privacy"]["clients"]["most"] == 1
    assert Counter(fh.PrivacyLedger(path).spent.values()) == {3.0: 20}


def test_a_run_that_spent_less_gives_the_rest_back(tmp_path):
    path = str(tmp_path / "clients.privacy")
    privacy = fh.Privacy(2.0, evaluations=6, budget=path, total=2.0, held_out=0.0)
    evaluation = fh.Evaluator(privacy=privacy)
    fh.tune(ToyFederation(), SPACE, fh.RandomSearch(trials=3), evaluation=evaluation, **BUDGET)
    assert set(fh.PrivacyLedger(path).spent.values()) == {1.0}


def test_a_run_that_is_stopped_keeps_its_share_and_takes_it_once(tmp_path):
    path = str(tmp_path / "clients.privacy")

    def stop(event):
        return event.kind == "evaluate" and not event.replayed

    def stopping(callbacks):
        evaluation = fh.Evaluator(clients=3, privacy=fh.Privacy(2.0, budget=path, total=3.0))
        options = {"rounds": 8, "total": 48, "cohort": 4, "run": tmp_path / "a", "callbacks": callbacks}
        return fh.tune(
            ToyFederation(), SPACE, fh.SHA(trials=9, finalists=1), evaluation=evaluation, **options
        )

    assert stopping([stop]).status == "stopped"
    assert fh.PrivacyLedger(path).highest[1] == pytest.approx(2.0)
    with pytest.raises(BudgetError, match="in earlier runs"):
        tune(path, 2.0)
    # Another run comes in between: what the first one goes on with stays the same.
    tune(path, 0.5, clients=3)
    while (result := stopping([stop])).status == "stopped":
        assert fh.PrivacyLedger(path).runs == 2
    spent = fh.PrivacyLedger(path).spent
    with open_read(tmp_path / "a") as run:
        calls = [json.loads(e.call) for e in run.record.events() if e.kind == "decide release"]
    asked = Counter(client for call in calls for cohort in call["asked"] for client in cohort)
    assert max(asked.values()) == result.facts["privacy"]["clients"]["most"] == 2
    assert sum(spent.values()) == pytest.approx(sum(asked.values()) * 1.0 + 9 * 0.5)
    assert stopping([]).status == "finished"  # opened again, it spends nothing
    assert fh.PrivacyLedger(path).spent == spent


class Nameless(ToyFederation):
    """Nothing tells its clients apart in another run."""

    def stable_name(self, client):
        return None


def test_without_stable_names_every_client_is_charged_for_every_release(tmp_path):
    path = str(tmp_path / "clients.privacy")
    result = tune(path, total=2.0, federation=Nameless(), clients=3)
    said = result.facts["privacy"]
    assert said["epsilon_each"] == pytest.approx(1 / 3)
    assert said["over_runs"] | {"runs": 1} == {
        "total": 2.0,
        "runs": 1,
        "client": None,
        "spent": pytest.approx(1.0),
        "delta": 0.0,
        "by_client": False,
    }
    tune(path, federation=Nameless(), clients=3)
    with pytest.raises(BudgetError, match="clients have spent 2 of 2"):
        tune(path, federation=Nameless(), clients=3)


def test_with_pld_a_client_that_was_asked_at_all_has_spent_the_whole(tmp_path):
    pytest.importorskip("dp_accounting")
    path = str(tmp_path / "clients.privacy")
    tune(path, total=5.0, clients=4, accounting="pld")
    ledger = fh.PrivacyLedger(path)
    assert Counter(ledger.spent.values()) == {1.0: 12}
    assert ledger.delta == 1e-3


def test_the_report_shows_the_client_with_the_highest_spend(tmp_path):
    path = str(tmp_path / "clients.privacy")
    tune(path, total=9.0, clients=3)
    result = tune(path, total=9.0, clients=10, run=tmp_path / "a")
    client, spent = fh.PrivacyLedger(path).highest
    said = result.facts["privacy"]["over_runs"]
    assert (said["client"], said["spent"]) == (client, pytest.approx(spent))
    page = fh.write_report([tmp_path / "a"], tmp_path / "report.html").read_text()
    assert f"client {client} has spent {spent:g} of 9" in page
    assert "most asked" in page


def test_a_ledger_may_be_given_as_such(tmp_path):
    ledger = fh.PrivacyLedger(tmp_path / "clients.privacy", total=3.0)
    privacy = fh.Privacy(1.0, budget=ledger, total=ledger.total)
    assert privacy.budget == str(tmp_path / "clients.privacy")
    with pytest.raises(fh.InputError, match="total needs budget"):
        fh.Privacy(1.0, total=3.0)
