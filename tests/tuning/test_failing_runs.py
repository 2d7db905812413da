"""Clients that fail: a run that trained nothing cannot finish, and every failure stands in the result."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import fedhpo as fh
from fedhpo import cli
from fedhpo.cli.summary import summary
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.failures import ClientFailed
from fedhpo.report import write_report
from fedhpo.search.events import TuningError

SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
METHODS = [
    ("random", 1, 2),
    ("random", 3, 9),
    ("tpe", 2, 8),
    ("sha", 4, 60),
    ("hyperband", 4, 24),
    ("bohb", 4, 24),
    ("fedex", 4, 60),
    ("fedpop", 4, 40),
]


def nudge(model, data, hyperparameters, generator):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=generator))


def in_rounds_only(model, data, hyperparameters, generator):
    """Passes the preflight, which gives at most 32 rows, and fails at every client with more."""
    if len(data.x) > 32:
        raise RuntimeError(f"cannot train on {len(data.x)} rows")
    nudge(model, data, hyperparameters, generator)


def client_7(model, data, hyperparameters, generator):
    if data.client == 7:
        raise KeyError("missing column")
    nudge(model, data, hyperparameters, generator)


@pytest.fixture(scope="module")
def digits():
    return fh.load("digits", clients=10, partition={"kind": "iid"})


def tune(data, train, method="random", rounds=3, total=6, run=None, **settings):
    with fh.simulate("linear", data, train=train, weighting="uniform", workers=0) as federation:
        return fh.tune(federation, SPACE, method, rounds=rounds, total=total, cohort=5, run=run, **settings)


@pytest.mark.parametrize(("method", "rounds", "total"), METHODS)
@pytest.mark.parametrize("baseline", [False, True])
def test_without_a_single_round_every_method_fails_and_quotes_the_client(
    digits, method, rounds, total, baseline
):
    quoted = (
        r"client \d: RuntimeError: cannot train on \d+ rows \(test_failing_runs.py:\d+, in in_rounds_only\)"
    )
    with pytest.warns(ClientFailed), pytest.raises(TuningError, match=f"no trial could be trained.*{quoted}"):
        tune(digits, in_rounds_only, method, rounds, total, baseline=baseline)


def test_proxy_search_that_trains_nothing_at_the_clients_fails(digits):
    with (
        fh.simulate("linear", digits, workers=0) as proxy,
        pytest.warns(ClientFailed),
        pytest.raises(TuningError, match="cannot train on"),
    ):
        tune(digits, in_rounds_only, fh.ProxySearch(proxy, total=4, length=2), 2, None)


def test_the_first_exception_is_told_at_once_with_client_and_line(digits):
    spent = []
    with pytest.warns(ClientFailed) as told:
        tune(digits, client_7, callbacks=[lambda event: spent.append((event.kind, len(told)))])
    first = str(told[0].message)
    assert "client 7 failed in round " in first
    assert "KeyError: 'missing column' (test_failing_runs.py:" in first
    assert ("round", 1) in spent  # told before the search went on
    assert len(told) == 1


def test_few_failures_stand_in_result_summary_report_and_files(digits, tmp_path):
    with pytest.warns(ClientFailed):
        result = tune(digits, client_7, run=tmp_path / "run", rounds=4, total=8)
    [row] = result.failures
    assert (row["client"], row["status"], row["during"]) == (7, "failed", "training")
    history = result.history
    assert row["count"] == sum(one["failed"] for one in history if one["kind"] == "round") > 0
    told = json.loads((tmp_path / "run" / "result.json").read_text())["failures"]
    assert told == result.facts["failures"]
    shown = summary(result.facts, tmp_path, tmp_path)
    replies = "1 reply" if row["count"] == 1 else f"{row['count']} replies"
    assert f"{replies} of client 7 in training, first in trial " in shown
    assert (
        "KeyError: &#x27;missing column&#x27;"
        in write_report([tmp_path / "run"], tmp_path / "r.html").read_text()
    )
    assert "could not be used" in str(result)


def test_a_run_without_failures_says_nothing_of_them(digits, tmp_path):
    result = tune(digits, nudge, run=tmp_path / "run")
    assert result.facts["failures"] == []
    assert len(result.failures) == 0
    assert "failures" not in summary(result.facts, Path("run"), Path("report"))
    assert "<h2>Failures</h2>" not in write_report([tmp_path / "run"], tmp_path / "r.html").read_text()


def test_a_resumed_run_counts_the_same_and_tells_nothing_again(digits, tmp_path):
    with pytest.warns(ClientFailed):
        whole = tune(digits, client_7, rounds=6, total=12)
    seen = []

    def stop(event):
        seen.append(event)
        return event.kind == "round" and len(seen) > 6

    with pytest.warns(ClientFailed):
        cut = tune(digits, client_7, rounds=6, total=12, run=tmp_path / "run", callbacks=[stop])
    assert cut.status == "stopped"
    # The report of a run that has not finished counts from its record.
    page = write_report([tmp_path / "run"], tmp_path / "r.html").read_text()
    assert "<h2>Failures</h2>" in page
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClientFailed)
        again = tune(digits, client_7, rounds=6, total=12, run=tmp_path / "run")
    assert again.facts["failures"] == whole.facts["failures"]
    finished = tune(digits, client_7, rounds=6, total=12, run=tmp_path / "run")
    assert finished.facts["failures"] == whole.facts["failures"]


def test_a_private_run_keeps_messages_back(digits):
    def train(model, data, hyperparameters, generator):
        if data.client == 7:
            raise ValueError("the secret is 17")
        nudge(model, data, hyperparameters, generator)

    evaluation = fh.Evaluator(privacy=Privacy(epsilon=100.0))
    with pytest.warns(ClientFailed) as told:
        result = tune(digits, train, evaluation=evaluation)
    assert "secret" not in json.dumps(result.facts) + str(told[0].message)
    assert result.failures[0]["reason"].startswith("ValueError (test_failing_runs.py:")


def test_diverging_clients_are_counted_without_a_warning(digits):
    def explode(model, data, hyperparameters, generator):
        nudge(model, data, hyperparameters, generator)
        if data.client == 3:
            next(model.parameters()).data.fill_(torch.nan)

    with warnings.catch_warnings():
        warnings.simplefilter("error", ClientFailed)
        result = tune(digits, explode)
    assert {row["reason"] for row in result.failures} == {"update is not finite"}
    assert {row["client"] for row in result.failures} == {3}


def test_the_command_line_ends_with_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.out = torch.nn.Linear(64, 10)\n"
        "    def forward(self, x):\n"
        "        if self.training and len(x) == 33:\n"
        "            raise ValueError('33 is too many')\n"
        "        return self.out(x.flatten(1))\n"
    )
    (tmp_path / "study.toml").write_text(
        '[data]\nname = "digits"\nclients = 5\npartition = {kind = "iid"}\n[model]\nname = "late:Net"\n'
        "[space.client]\nlr = {low = 0.01, high = 1.0}\nbatch_size = 33\n"
        '[budget]\nrounds = 1\ntotal = 2\ncohort = 3\n[method]\nname = "random"\n'
    )
    assert cli.main(["tune", "study.toml", "--workers", "0"]) == 2
    told = capsys.readouterr().err
    assert "warning: client" in told
    assert "ValueError: 33 is too many (late.py:8, in forward)" in told.splitlines()[-1]


def test_counts_by_hand():
    from fedhpo.protocol.failures import Failures
    from fedhpo.protocol.federation import Answer, RoundReport, Status

    def report(trial, number, applied, status, reasons):
        nothing, none = np.full(3, np.nan), np.zeros(3, np.int64)
        cohort = np.array([4, 8, 2])
        return RoundReport(
            trial, number, applied, cohort, np.array(status, np.int8), none, none, *[nothing] * 4, reasons
        )

    told = []
    failures = Failures(told.append)
    failures.take([report(0, 1, True, [0, 1, 2], {1: "ValueError: row 12", 2: "no reply"})])
    failures.take([report(1, 0, False, [1, 1, 1], {i: f"ValueError: row {i}" for i in range(3)})])
    failures.take([Answer(5, Status.FAILED, reason="TypeError: no")])
    found = failures.to_list()
    assert [(one["reason"], one["status"], one["count"], one["clients"]) for one in found] == [
        ("ValueError: row 12", "failed", 4, 3),
        ("no reply", "missing", 1, 1),
        ("TypeError: no", "failed", 1, 1),
    ]
    assert found[0]["first"] == {"client": 8, "trial": 0, "round": 1}
    assert found[0]["by_client"] == [[2, 1, 1, 1], [4, 1, 1, 1], [8, 2, 0, 1]]
    assert [failure.reason.text for failure in told] == ["ValueError: row 12", "TypeError: no"]
