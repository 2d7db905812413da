"""No exact score of a private run stands anywhere: record, history, result, report, terminal.

All clients say one odd number, so that every exact mean is that number too: it is searched for by its digits.
"""

import dataclasses

import numpy as np
import pytest

from fedhpo.cli import main
from fedhpo.federations.simulated import SimulatedFederation

#: What every client says of every model, in a private run and in rounds: its accuracy, and its loss.
ODD = 0.7318309886183791
ODD_LOSS = 0.4142935177254873
STUDY = """
[data]
name = "digits"
clients = 10
[model]
name = "linear"
[space.client]
lr = { low = 0.01, high = 1.0, log = true }
[server]
weighting = "uniform"
[method]
name = "METHOD"
[objective]
weighting = "uniform"
[budget]
rounds = 4
total = 12
cohort = 5
baseline = true
"""
PRIVATE = """
[evaluation.privacy]
epsilon = 1.0
mechanism = "MECHANISM"
"""


def said(clients):
    return {"accuracy": np.full(len(clients), ODD), "loss": np.full(len(clients), ODD_LOSS)}


@pytest.fixture(autouse=True)
def odd_scores(monkeypatch):
    evaluate, next_done = SimulatedFederation.evaluate, SimulatedFederation.next_done

    def scored(self, *arguments):
        found = evaluate(self, *arguments)
        return [dataclasses.replace(one, **said(one.clients)) for one in found]

    def done(self, *arguments):
        report = next_done(self, *arguments)
        told = said(report.cohort).items()
        return dataclasses.replace(
            report, **{f"{name}_{when}": values for name, values in told for when in ("before", "after")}
        )

    monkeypatch.setattr(SimulatedFederation, "evaluate", scored)
    monkeypatch.setattr(SimulatedFederation, "next_done", done)


def digits(count):
    """The odd numbers and the error that goes with them to so many digits, as shares and in points."""
    return [
        text
        for odd in (ODD, 1 - ODD, ODD_LOSS)
        for text in (f"{odd:.{count}f}", f"{100 * odd:.{count - 2}f}")
    ]


def found(tmp_path, capsys, text):
    """Where the odd number stands after a run and a report of it."""
    (tmp_path / "study.toml").write_text(text)
    runs, study = tmp_path / "runs", str(tmp_path / "study.toml")
    run = runs / "run"
    assert main(["tune", study, "--runs", str(runs), "--name", "run", "--workers", "0"]) == 0
    assert main(["report", str(run), "--output", str(tmp_path / "report.html")]) == 0
    assert main(["runs", str(runs)]) == 0
    shown = capsys.readouterr()
    where = {"terminal"} if any(d in shown.out + shown.err for d in digits(3) + digits(4)) else set()
    patterns = [d.encode() for d in digits(5)]
    patterns += [kind(odd).tobytes() for odd in (ODD, ODD_LOSS) for kind in (np.float64, np.float32)]
    for file in [*(one for one in run.rglob("*") if one.is_file()), tmp_path / "report.html"]:
        if any(pattern in file.read_bytes() for pattern in patterns):
            where.add(file.name.split("-")[0])
    return where


@pytest.mark.parametrize(
    ("method", "mechanism"),
    [
        ("random", "laplace"),
        ("sha", "topk"),
        ("sha", "permute-and-flip"),
        ('fedex"\nschedule = "fixed"\narms = 3\nmetric = "error', "laplace"),
        ('fedpop"\ninterval = 1\nlocal = false\njudge = "evaluation', "laplace"),
    ],
)
def test_nowhere_in_a_private_run(tmp_path, capsys, method, mechanism):
    text = (STUDY + PRIVATE).replace("METHOD", method).replace("MECHANISM", mechanism)
    assert found(tmp_path, capsys, text) == set()


def test_everywhere_in_an_open_run(tmp_path, capsys):
    """Or the search would not find it."""
    where = found(tmp_path, capsys, STUDY.replace("METHOD", "random"))
    assert {"terminal", "record.sqlite", "result.json", "history.csv", "report.html"} <= where
