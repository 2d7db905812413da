"""The report: numbers that it shows, figures that plotly accepts, and nothing that runs by itself."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

import fedhpo as fh
from fedhpo import figures
from fedhpo.core.errors import InputError
from fedhpo.figures.reading import load_view
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import drawn
from fedhpo.report import write_report
from fedhpo.report.answers import answers
from fedhpo.report.page import page
from fedhpo.report.sections import sections
from fedhpo.report.sections.clients import clients
from fedhpo.report.sections.trials import trials

HOSTILE = "</script><script>alert(1)</script>"


def row(kind, trial, number, spent, accuracy, **more):
    scores = {"loss": None, "accuracy": None, "loss_before": None, "accuracy_before": None}
    scores["accuracy" if kind == "evaluate" else "accuracy_before"] = accuracy
    split = "validation" if kind == "evaluate" else None
    counts = {
        "seconds": 2.0 * spent,
        "ok": 2,
        "failed": 0,
        "missing": 0,
        "bytes_down": 1000 * spent,
        "bytes_up": 500 * spent,
    }
    return {
        "kind": kind,
        "trial": trial,
        "round": number,
        "rounds": spent,
        "split": split,
        **counts,
        **scores,
        **more,
    }


def trial(number, status, rounds, score, **client):
    return {
        "trial": number,
        "config": {"client": client},
        "status": status,
        "rounds": rounds,
        "score": score,
        "standard_error": None,
        "reason": "",
    }


@pytest.fixture
def view():
    """Three trials: trial 1 wins, trial 2 looked better at first."""
    shown = trial(1, "finished", 4, 0.75, lr=0.1, rule="b")
    best = {
        **shown,
        "validation": {"value": 0.75, "standard_error": 0.0, "clients": 9, "round": 4},
        "test": None,
    }
    return RunView(
        name="hand-made",
        asked={
            "space": {"client": {"lr": {"type": "float", "low": 0.01, "high": 1, "log": True}, "rule": "b"}}
        },
        facts={
            "created": 0.0,
            "stops": [{"reason": "interrupted"}],
            "versions": {"fedhpo": "0.1.0", "python": "3", "numpy": "2", "torch": None, "machine": "x"},
            "federation": {"data": "digits", "clients": 9},
        },
        result={
            "status": "finished",
            "reason": "",
            "method": {"name": "sha", "trials": 3},
            "seed": 0,
            "objective": {"metric": "accuracy", "direction": "maximize", "over": "mean", "weighting": "size"},
            "best": best,
            "baseline": None,
            "gain": {"value": 0.25, "standard_error": 0.01, "round": 2, "clients": 9},
            "trials": [
                trial(0, "eliminated", 2, 0.25, lr=0.01, rule="b"),
                shown,
                trial(2, "failed", 2, 0.5, lr=1.0, rule="b"),
            ],
            "cost": {
                "rounds": 8,
                "client_rounds": 16,
                "bytes_down": 1e6,
                "bytes_up": 2e6,
                "samples": 1,
                "evaluations": 27,
                "budget": {"rounds": 10},
            },
            "times": {"wall_seconds": 3.0},
        },
        history=[
            row("round", 1, 1, 3, 0.1),
            row("round", 1, 2, 6, 0.2),
            row("evaluate", 0, 2, 6, 0.25),
            row("evaluate", 1, 2, 6, 0.4),
            row("evaluate", 2, 2, 6, 0.5),
            row("evaluate", 1, 4, 8, 0.7),
            row("evaluate", 1, 4, 8, 0.75),
            row("evaluate", 1, 4, 8, 0.9, split="test"),
        ],
    )


def test_curves_are_the_scores_by_round_and_never_test_scores(view):
    assert view.evaluated == {0: [(2, 0.25)], 1: [(2, 0.4), (4, 0.75)], 2: [(2, 0.5)]}
    assert view.in_rounds == {1: [(0, 0.1), (1, 0.2)]}  # before a round: the model of the round before


def test_the_incumbent_is_the_best_of_those_trained_longest(view):
    assert [(one.spent, one.trial, one.value) for one in view.incumbents] == [(6, 2, 0.5), (8, 1, 0.75)]
    assert not any(one.fell for one in view.incumbents)


def test_error_is_one_minus_accuracy(view):
    objective = {**view.result["objective"], "metric": "error", "direction": "minimize"}
    error = replace(view, result={**view.result, "objective": objective})
    assert error.evaluated[1] == [(2, 0.6), (4, 0.25)]
    assert [(one.spent, one.value) for one in error.incumbents] == [(6, 0.5), (8, 0.25)]


def test_the_winner_is_drawn_last_over_the_others(view):
    figure = figures.curves(view)
    assert [one["name"] for one in figure["data"]] == [
        "winner",
        "other trials",
        "your config (trial 0)",
        "winner",
    ]
    assert figure["data"][-1]["y"] == [0.4, 0.75]


@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_plotly_accepts_every_figure(view, metric):
    view = replace(view, result={**view.result, "objective": {**view.result["objective"], "metric": metric}})
    history = [row | {"loss": row["accuracy"], "loss_before": row["accuracy_before"]} for row in view.history]
    view = replace(view, history=history)
    made = [figures.curves(view), figures.leading([view, view]), figures.cost(view)]
    made += [figures.slice_of(view, name) for name, _ in view.tuned]
    for figure in made:
        assert len(go.Figure(figure).data) == len(figure["data"])  # raises on an unknown property
    assert made[0]["layout"]["yaxis"]["type"] == ("log" if metric == "loss" else "linear")


def test_trials_are_listed_winner_first_then_the_users_own(view):
    rows = re.findall(r'<tr class="(\w*)"><td class="n " data-key="(\d)"', trials(view).body)
    assert rows == [("winner", "1"), ("own", "0"), ("", "2")]


def test_the_page_shows_the_result(view):
    content = page([view])
    for shown in (
        "0.7500",
        "+25.0 points",
        "± 1.0 points (standard error)",
        "both at round 2",
        "8 of 10",
        "interrupted",
    ):
        assert shown in content
    assert content.count("<h2>") == len(sections(view))


def test_the_page_needs_no_network_and_holds_plotly_once(view):
    content = page([view])
    assert not re.search(r"""<(script|link|img|iframe)[^>]*\b(src|href)\s*=""", content)
    assert content.count("* plotly.js (cartesian - minified) v") == 1
    assert len(content) < 1.7e6


def test_what_comes_from_the_user_is_text(view):
    result = json.loads(json.dumps(view.result).replace('"b"', json.dumps(HOSTILE)))
    result["trials"][2]["reason"] = HOSTILE
    result["method"]["name"] = HOSTILE
    hostile = replace(
        view,
        name=HOSTILE,
        result=result,
        facts={**view.facts, "federation": {"data": HOSTILE}},
        study_text=HOSTILE,
    )
    usual = page([view]).count("<script")
    assert "alert(1)" in page([hostile])
    assert page([hostile]).count("<script") == usual
    assert HOSTILE not in page([hostile, hostile])


def test_a_figure_cannot_close_its_script(view):
    config = {"client": {"rule": HOSTILE}}
    result = {**view.result, "trials": [{**one, "config": config} for one in view.result["trials"]]}
    assert HOSTILE not in drawn(figures.curves(replace(view, result=result)), "one")


def test_runs_of_different_objectives_are_not_compared(view):
    other = replace(view, result={**view.result, "objective": {**view.result["objective"], "metric": "loss"}})
    with pytest.raises(InputError, match="hand-made has accuracy, hand-made has loss"):
        page([view, other])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped after its first evaluation."""
    path = tmp_path_factory.mktemp("runs") / "stopped"
    with fh.simulate("mlp", fh.load("digits", clients=6), workers=0) as federation:
        fh.tune(
            federation,
            fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)}),
            fh.SHA(trials=3),
            rounds=4,
            total=12,
            cohort=3,
            run=path,
            callbacks=[lambda event: event.kind == "evaluate"],
        )
    return path


def test_a_stopped_run_has_a_report_too(stopped, tmp_path):
    view = load_view(stopped)
    assert (view.result["status"], view.result["reason"]) == ("stopped", "a callback asked to stop")
    assert [one["trial"] for one in view.result["trials"]] == [0, 1, 2]
    scores = [one["score"] for one in view.result["trials"]]
    assert view.result["best"]["trial"] == scores.index(max(scores))
    content = write_report([stopped], tmp_path / "report.html").read_text()
    assert f"{max(scores):.4f}" in content


def test_a_report_that_cannot_be_ended_leaves_the_old_one(stopped, tmp_path, monkeypatch):
    page = write_report([stopped], tmp_path / "report.html")
    before = page.read_bytes()

    class Full(io.StringIO):
        def write(self, content):
            raise OSError(28, "No space left on device")

    opened = Path.open

    def full(self, mode="r", **options):
        opened(self, mode, **options).close()
        return Full()

    with monkeypatch.context() as disk:
        disk.setattr(Path, "open", full)
        with pytest.raises(InputError, match=r"cannot write the report .*: No space left on device"):
            write_report([stopped], page)
    assert page.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_the_report_needs_a_place(stopped, tmp_path):
    with pytest.raises(InputError, match="cannot write the report"):
        write_report([stopped], tmp_path / "missing" / "report.html")


def test_the_verdict_comes_first_in_words(view):
    certain = page([view]).partition("<p class=answer>")[2].partition("</p>")[0]
    assert certain == "Improved: use the tuned config."
    assert [one.answer for one in answers(view)][:3] == ["+25.0 points", "Beyond chance", "8 of 10 rounds"]
    gain = view.result["gain"]
    doubt = replace(view, result={**view.result, "gain": {**gain, "standard_error": 0.2}})
    assert "The tuned config may be better." in page([doubt])
    assert answers(doubt)[1].answer == "Not certain"
    worse = replace(view, result={**view.result, "gain": {**gain, "value": -0.01}})
    assert "No improvement: keep your config." in page([worse])
    assert answers(worse)[0].answer == "No"
    none = replace(view, result={**view.result, "best": None, "gain": None})
    assert "No trial was scored yet." in page([none])


def test_clients_are_named_from_the_worst(view):
    known = {1: (np.array([4, 7, 9, 2]), np.array([0.9, 0.25, 0.5, np.nan])), 0: (np.arange(3), np.ones(3))}
    section = clients(replace(view, clients=known))
    assert "Client 7 gets the least: 0.2500, against a mean of 0.5500 over 3 clients" in section.body
    assert re.findall(r'data-key="(\d)">\d</td>', section.body)[:3] == ["7", "9", "4"]
    assert clients(view) is None
    private = replace(view, clients=known, result={**view.result, "privacy": {"epsilon": 1.0}})
    assert clients(private) is None  # what was not paid for is not shown


def test_comparisons_are_at_equal_rounds_and_at_equal_bytes(view):
    by_rounds, by_bytes = (figures.leading([view, view], by)["data"][0] for by in ("rounds", "bytes"))
    assert by_rounds["x"] == [6, 8]
    assert by_bytes["x"] == [0.009, 0.012]  # 1.5 kB a round
    assert by_rounds["y"] == by_bytes["y"] == [0.5, 0.75]
    dots = figures.gains([view, view])
    assert [trace["x"] for trace in dots["data"]] == [[0.25], [0.25]]
    assert dots["data"][0]["error_x"]["array"] == [0.02]
    assert len(go.Figure(dots).data) == 2


def test_hundreds_of_trials_share_one_line(view):
    curves = {number: [(0, 0.1), (1, 0.2)] for number in range(3, 300)}
    found = figures.curves(replace(view, cohorts=curves))
    assert len(found["data"]) == 4  # thin ones of the others; points of the others, the own and the winner
    assert len(found["data"][0]["x"]) == 297 * 3 - 1  # with a gap between each two


def test_the_report_of_300_trials_is_small(view):
    some = [
        trial(number, "eliminated", 9, number / 300, lr=0.01 + number / 303, rule="b")
        for number in range(300)
    ]
    curves = {number: [(at, at / 40) for at in range(40)] for number in range(300)}
    large = replace(view, result={**view.result, "trials": some}, cohorts=curves)
    assert len(page([large]).encode()) < 2.5e6
