"""What the report shows of a client policy."""

import json
from collections import Counter

import numpy as np
import plotly.graph_objects as go
import pytest

import fedhpo as fh
from fedhpo.figures.policy import arm_use, largest_weight, policy
from fedhpo.figures.reading import load_view
from fedhpo.methods.fedex.ground_truth import FILE, GroundTruth
from fedhpo.methods.fedex.ranking import compare
from fedhpo.report import write_report
from fedhpo.report.sections.own import own
from fedhpo.report.sections.ranking import ranking, ranking_over_rounds
from fedhpo.testing import ToyFederation
from fedhpo_papers.shared.train_alone import train_alone

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})
BUDGET = {"rounds": 6, "total": 18, "cohort": 5}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "a"
    method = fh.FedEx(schedule="fixed", arms=5, eps=1.0, landmarks=2, landmark_rounds=3)
    fh.tune(ToyFederation(), SPACE, method, run=path, **BUDGET)
    return path


def winner(view):
    return next(one for one in view.result["policies"] if one["trial"] == view.winner)


def test_the_figures_hold_what_the_record_holds(run):
    """The record names each member's config: that is how often an arm was used."""
    view = load_view(run)
    shown = winner(view)
    bars = arm_use(shown)["data"][0]
    assert sum(bars["y"]) == 6 * 5
    assert bars["y"] == [Counter(a for r in shown["rounds"] for a in r["drawn"])[i] for i in range(5)]
    heat = policy([shown], view.winner)["data"][0]
    assert np.array(heat["z"]).shape == (5, 7)
    assert np.array(heat["z"]).sum(axis=0) == pytest.approx(np.ones(7), abs=1e-3)
    assert np.array(heat["z"])[:, 0] == pytest.approx(np.full(5, 0.2), abs=1e-6)
    line = largest_weight(view.result["policies"], view.winner)["data"][-1]
    assert line["y"] == pytest.approx(np.array(heat["z"]).max(axis=0), abs=1e-4)
    go.Figure(arm_use(shown))  # raises on an unknown property


def test_the_section_names_the_deployed_arm(run):
    view = load_view(run)
    shown = winner(view)
    [section] = view.result["sections"]
    assert section["title"] == "Client policy"
    [body] = [one.body for one in own(view) if one.title == "Client policy"]
    assert f"Most weight: arm {shown['best']} (lr " in body
    assert view.result["best"]["config"]["client"] == shown["arms"][shown["best"]]
    assert ranking(view) is None


def test_with_ground_truth_the_metrics_over_rounds(run, tmp_path):
    shown = winner(load_view(run))
    truth = train_alone(ToyFederation(), SPACE, shown["arms"], rounds=6, cohort=5)
    truth.save(run / FILE)
    try:
        view = load_view(run)
        lines = ranking_over_rounds(shown, GroundTruth.of_run(run).of(shown["arms"]))["data"]
        last = compare(shown["rounds"][-1]["log_weights"], truth.values)
        assert [line["y"][-1] for line in lines] == pytest.approx(
            [last.kendall, last.spearman, last.average_precision]
        )
        assert 'id="ranking"' in ranking(view).body
        assert "Client policy" in write_report([run], tmp_path / "r.html").read_text(encoding="utf-8")
    finally:
        (run / FILE).unlink()


def test_other_methods_are_ranked_by_their_scores(tmp_path):
    result = fh.tune(ToyFederation(noise=0.0), SPACE, "random", run=tmp_path / "b", **BUDGET)
    assert own(load_view(tmp_path / "b")) == []
    assert ranking(load_view(tmp_path / "b")) is None
    clients = [{"lr": row["client.lr"]} for row in result.trials]
    GroundTruth(tuple(clients), tuple(row["score"] for row in result.trials)).save(tmp_path / "b" / FILE)
    section = ranking(load_view(tmp_path / "b"))
    assert section.body.count(">1.0000<") == 3  # its own scores rank perfectly
    assert section.body.count(">0.0000<") == 1  # no regret


def test_a_truth_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / FILE).write_text(json.dumps({"format": "other"}))
    with pytest.raises(fh.InputError, match=r"must be a ground truth with format .*found 'other'"):
        GroundTruth.load(tmp_path / FILE)


def test_ground_truth_of_configs_alone():
    """The nearer to 0.1, the better; one that was asked for first is not trained twice."""
    truth = train_alone(ToyFederation(noise=0.0), SPACE, [{"lr": 1.0}, {"lr": 0.1}], rounds=2, cohort=4)
    assert truth.values[1] > truth.values[0]
    assert truth.of([{"lr": 0.1}]) == [truth.values[1]]
    assert truth.of([{"lr": 0.3}]) is None
