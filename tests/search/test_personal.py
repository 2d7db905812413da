"""Personalised scores: mean, spread and worst tenth over clients, for every method."""

import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.figures.reading import load_view
from fedhpo.protocol.federation import Answer, Status, Work
from fedhpo.report.sections.personal import personal
from fedhpo.search.personal import over_clients, spread

SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True), "batch_size": 8}, server={"lr": 1.0})


def answer(client, before, after, size=5):
    names = ("accuracy_before", "accuracy_after", "loss_before", "loss_after")
    values = dict(zip(names, (before, after, 1 - before, 1 - after), strict=True))
    return Answer(client, Status.OK, {**values, "size": size})


def test_mean_spread_and_worst_tenth_by_hand():
    """Twenty clients: the worst tenth are two, 0 and 0.05; the variance of 0, 0.05, ..., 0.95 is 0.0875."""
    found = spread(np.arange(20) / 20, higher=True)
    assert found["mean"] == pytest.approx(0.475)
    assert found["standard_deviation"] == pytest.approx(math.sqrt(0.0875))
    assert found["lowest_decile"] == pytest.approx(0.025)
    assert found["deciles"][0] == 0.0
    assert found["deciles"][5] == pytest.approx(0.475)
    assert found["deciles"][10] == pytest.approx(0.95)
    assert spread(np.arange(20) / 20, higher=False)["lowest_decile"] == pytest.approx(0.925)


def test_what_is_not_finite_is_counted_apart():
    found = spread(np.array([0.5, np.inf, np.nan, 1.0]), higher=False)
    assert found["mean"] == 0.75
    assert found["lost"] == 2
    assert spread(np.array([np.nan]), higher=True)["mean"] is None


def test_clients_count_the_same_whatever_their_size_and_failed_ones_do_not():
    answers = [
        answer(0, 0.2, 0.4, size=1),
        answer(1, 0.6, 1.0, size=99),
        answer(2, 0.0, 0.0, size=0),
        Answer(3, Status.FAILED, reason="out of memory"),
    ]
    found = over_clients(answers)
    assert (found["clients"], found["failed"]) == (2, 1)
    assert found["global"]["accuracy"]["mean"] == pytest.approx(0.4)
    assert found["fine_tuned"]["accuracy"]["mean"] == pytest.approx(0.7)
    assert found["fine_tuned"]["loss"]["mean"] == pytest.approx(0.3)


@pytest.fixture(scope="module")
def data():
    return fh.load("digits", clients=12, partition={"kind": "dirichlet", "alpha": 0.3})


def tune(data, method, run=None, **options):
    with fh.simulate("linear", data, workers=0) as federation:
        evaluation = fh.Evaluator(personalised=True)
        budget = {"rounds": 4, "total": 12, "cohort": 4}
        return fh.tune(federation, SPACE, method, run=run, evaluation=evaluation, **budget, **options)


@pytest.mark.parametrize(
    "method",
    [fh.RandomSearch(), fh.SHA(trials=3), fh.FedPop(), fh.FedEx(arms=3, schedule="fixed", trials=2)],
    ids=lambda method: method.name,
)
def test_every_method_has_personalised_scores_of_its_own_model_and_config(data, method):
    """Trained once more at each client by hand, from the result's model, they come out the same."""
    result = tune(data, method)
    found = result.personal
    with fh.simulate(result.model, data, workers=0) as again:
        again.start(0, {}, seed=0)
        [scores] = again.evaluate([0], again.test_clients, "test")
    assert found["clients"] == len(scores.clients) == 12
    assert found["global"]["accuracy"]["mean"] == pytest.approx(scores.accuracy.mean())
    assert found["fine_tuned"]["accuracy"]["mean"] > found["global"]["accuracy"]["mean"]


def test_fine_tuning_is_one_local_training_with_the_tuned_hyperparameters(data):
    """Full batches leave nothing to chance: a round at one client, with server lr 1, is the same training."""
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True), "batch_size": 10_000}, server={"lr": 1.0})
    with fh.simulate("linear", data, workers=0) as federation:
        result = fh.tune(
            federation,
            space,
            "random",
            rounds=3,
            total=6,
            cohort=4,
            evaluation=fh.Evaluator(personalised=True),
        )
    accuracies = []
    with fh.simulate(result.model, data, workers=0) as again:
        for client in again.test_clients:
            again.start(int(client), {}, seed=0)
            again.round([Work(int(client), [int(client)], result.best_config.client, {"lr": 1.0})])
            accuracies += again.evaluate([int(client)], [client], "test")[0].accuracy.tolist()
    assert result.personal["fine_tuned"]["accuracy"]["mean"] == pytest.approx(np.mean(accuracies))


def test_a_stopped_run_ends_with_the_same_scores_and_the_report_shows_them(data, tmp_path):
    whole = tune(data, fh.FedPop())
    stopped = tune(data, fh.FedPop(), tmp_path / "a", callbacks=[lambda event: event.kind == "round"])
    assert stopped.status == "stopped"
    assert stopped.personal is None
    ended = tune(data, fh.FedPop(), tmp_path / "a")
    assert ended.personal == whole.personal
    section = personal(load_view(tmp_path / "a"))
    assert f"{whole.personal['fine_tuned']['accuracy']['lowest_decile']:.4f}" in section.body
    assert "worst tenth" in section.body


def test_without_asking_there_are_none(data):
    with fh.simulate("linear", data, workers=0) as federation:
        result = fh.tune(federation, SPACE, "random", rounds=2, total=2, cohort=4)
    assert result.personal is None


def test_personalised_scores_are_not_private():
    with pytest.raises(fh.InputError, match="personalised scores are not private"):
        fh.Evaluator(personalised=True, privacy=fh.Privacy(epsilon=1.0))
