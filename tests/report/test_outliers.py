"""Clients whose scores are outliers, by hand and in a report."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.figures.agreement import agreements
from fedhpo.figures.deviation import deviations
from fedhpo.protocol.federation import RoundReport, Scores, UpdateShapes
from fedhpo.protocol.objective import Objective
from fedhpo.report.page import write_report
from fedhpo.testing.attacks import InvertedScores, SignFlip, hostile


def scores(accuracies):
    count = len(accuracies)
    nothing = np.full(count, np.nan)
    status, sizes = np.zeros(count, np.int8), np.full(count, 10)
    return Scores(0, "validation", np.arange(count), status, sizes, nothing, np.array(accuracies, float))


def test_distance_and_agreement_by_hand():
    """Medians rise from 0.3 to 0.8. Client 5 falls; client 6 rises with the others, far above them."""
    models = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    told = [scores([m - 0.02, m - 0.01, m, m, m + 0.01, 1 - m, m + 0.19]) for m in models]
    found = agreements(told, Objective())
    assert [one.client for one in found if one.outlies] == [5, 6]
    assert found[5].agreement == pytest.approx(-1)
    assert found[6].agreement == pytest.approx(1)
    # Its distance: sorted deviations from the median are 0, 0, 0.01, 0.01, 0.02, 0.19 and |1 - 2m|.
    assert found[6].distance == pytest.approx(0.19 / (1.4826 * 0.01))
    assert found[2].distance == 0


def test_few_clients_and_few_scores_are_not_judged():
    assert agreements([scores([0.1, 0.9])] * 10, Objective()) == []
    assert agreements([scores([0.1, 0.2, 0.3, 0.4, 0.5])] * 5, Objective()) == []


def test_the_report_names_liars_and_a_private_one_does_not(tmp_path):
    data = fh.load("digits", clients=10, partition={"kind": "iid"})
    space = fh.Space(client={"lr": fh.Float(0.003, 1.0, log=True)})
    for name, evaluator in (
        ("open", fh.Evaluator()),
        ("private", fh.Evaluator(privacy=fh.Privacy(epsilon=9.0))),
    ):
        with fh.simulate("linear", data, weighting="uniform", workers=0) as federation:
            lying = hostile(federation, InvertedScores(), share=0.2)
            fh.tune(
                federation,
                space,
                fh.RandomSearch(trials=8),
                rounds=2,
                total=16,
                cohort=5,
                evaluation=evaluator,
                objective=fh.Objective(weighting="uniform"),
                run=tmp_path / name,
            )
        page = write_report([tmp_path / name], tmp_path / f"{name}.html").read_text()
        assert ("Clients unlike the others" in page) == (name == "open")
        if name == "open":
            assert "2 of 10 clients are outliers" in page
            assert all(f">{client}</td>" in page for client in lying.clients)


def report(lengths, cosines):
    count = len(lengths)
    ok, rows, unknown = np.zeros(count, np.int8), np.full(count, 10), np.full(count, np.nan)
    shapes = UpdateShapes(np.array(lengths, float), np.array(cosines, float))
    return RoundReport(0, 1, True, np.arange(count), ok, rows, rows, *[unknown] * 4, updates=shapes)


def test_lengths_and_directions_by_hand():
    """Lengths e^0 to e^4 in steps of 1 around e^2; client 5 is far longer, client 6 goes the other way."""
    lengths = np.exp([0.0, 1.0, 2.0, 3.0, 4.0, 12.0, 2.0])
    cosines = [0.4, 0.5, 0.6, 0.5, 0.4, 0.5, -0.5]
    found = deviations([report(lengths, cosines)] * 3)
    assert [one.client for one in found if one.outlies] == [5, 6]
    # The median logarithm is 2; the deviations 0, 0, 1, 1, 2, 2, 10 have the median 1.
    assert found[5].length == pytest.approx(10 / 1.4826)
    # The median cosine is 0.5; the deviations 0, 0, 0, 0.1, 0.1, 0.1, 1 have the median 0.1.
    assert found[6].direction == pytest.approx(-1 / 0.14826)
    assert found[6].cosine == -0.5
    assert deviations([report(lengths, cosines)] * 2) == []  # too few rounds
    assert deviations([report(lengths[:4], cosines[:4])] * 9) == []  # too few clients


@pytest.mark.parametrize("aggregation", ["agreement_filter", "direction_filter", "median", "mean"])
def test_the_report_names_clients_whose_updates_go_the_other_way(tmp_path, aggregation):
    """Under the mean, updates are not held, and nothing is known of single ones."""
    data = fh.load("digits", clients=10, partition={"kind": "iid"})
    space = fh.Space(client={"lr": fh.Float(0.1, 1.0, log=True)})
    trim = {"trim": 0.25} if "filter" in aggregation else {}
    with fh.simulate("linear", data, workers=0, aggregation=aggregation, **trim) as federation:
        lying = hostile(federation, SignFlip(1.0), share=0.2)
        fh.tune(
            federation, space, fh.RandomSearch(trials=2), rounds=4, total=8, cohort=10, run=tmp_path / "run"
        )
    page = write_report([tmp_path / "run"], tmp_path / "page.html").read_text()
    assert ("The updates of 2 of 10 clients are outliers" in page) == (aggregation != "mean")
    if aggregation != "mean":
        assert all(f">{client}</td>" in page for client in lying.clients)
