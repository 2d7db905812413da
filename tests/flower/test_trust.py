"""What a run over Flower trusts its clients with: the choice, useless updates, and the line that says so."""

import numpy as np
import pytest
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client
from fedhpo.protocol.federation import Status, Work
from fedhpo.protocol.reasons import Why
from fedhpo.run.run import open_read
from fedhpo.tuning.trust import CHOICE

SPACE = fh.Space(client={"lr": fh.Choice([0.1, 0.5], default=0.1)})
ROWS = {"train": 10, "validation": 10}


def federation(train=None, evaluate=None, clients=8, **options):
    """Clients whose model is their config: seven score 0.5 better by 0.05, client 3 says the opposite."""

    def trained(arrays, task, context):
        return Trained({"w": np.full_like(arrays["w"], task.config["lr"])}, train_size=10)

    def scored(arrays, task, context):
        good, liar = bool(arrays["w"][0] > 0.3), context.node_config["partition-id"] == 3
        accuracy = float(not good) if liar else (0.75 if good else 0.70)
        return Scored(10, 1 - accuracy, accuracy)

    app = client(ClientApp(), train=train or trained, evaluate=evaluate or scored, sizes=lambda context: ROWS)
    model = Arrays(lambda seed: {"w": np.zeros(2, np.float32)})
    return FlowerFederation(InProcessGrid(app, clients), model, clients=clients, **options)


def tuned(run=None, clients=8, method=None, **options):
    with federation(clients=clients) as opened:
        method = method or fh.GridSearch()
        return fh.tune(opened, SPACE, method, rounds=2, total=4, cohort=clients, run=run, **options)


@pytest.mark.parametrize("method", [fh.GridSearch(), fh.Robust(), fh.GP(trials=2)])
def test_one_liar_of_eight_moves_neither_the_choice_nor_the_verdict(method, capsys):
    result = tuned(method=method, baseline=True)
    assert result.best_config.client["lr"] == 0.5
    assert result.best_score == pytest.approx(7 / 8 * 0.75)  # what is reported is the mean, the liar's too
    assert result.facts["gain"]["value"] == pytest.approx(0.05)
    assert result.facts["evaluation"]["choice"] == "trimmed"
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for word in ("evaluation.choice = 'mean'", "reported scores are means", "FedTune", "agreement_filter"):
        assert word in said
    assert result.facts["trust"] == said.strip()


def test_the_choice_by_means_is_a_setting(capsys):
    """As before: the liar's lead of 1 counts an eighth, 0.125, against 7/8 of 0.05."""
    result = tuned(evaluation=fh.Evaluator(choice="mean"))
    assert result.best_config.client["lr"] == 0.1
    assert result.facts["evaluation"]["choice"] == "mean"
    assert "one client that lies about scores can move the choice" in capsys.readouterr().err


def test_below_eight_clients_means_decide_and_trimmed_is_refused():
    assert "choice" not in tuned(clients=7).facts["evaluation"]
    with pytest.raises(InputError, match=r"'trimmed': needs 8 clients that score, and 7 are asked"):
        tuned(clients=7, evaluation=fh.Evaluator(choice="trimmed"))


@pytest.mark.parametrize("choice", ["mean", "trimmed"])
def test_a_choice_that_changes_nothing_is_refused(choice):
    with pytest.raises(InputError, match=r"has no effect with objective.over = 'worst'"):
        tuned(evaluation=fh.Evaluator(choice=choice), objective=fh.Objective(over="worst"))
    with pytest.raises(InputError, match="'trimmed' cannot go with privacy"):
        fh.Evaluator(choice="trimmed", privacy=fh.Privacy(1.0))


def test_a_run_that_was_begun_by_means_goes_on_by_means(tmp_path):
    """A record of an older version holds no choice: its trials are chosen as they were."""

    def after_an_evaluation(event):
        return event.kind == "evaluate"

    stopped = tuned(tmp_path / "old", callbacks=[after_an_evaluation])
    assert stopped.status == "stopped"
    assert open_read(tmp_path / "old").record.get(CHOICE) == "trimmed"
    with federation() as opened:
        from fedhpo.run import Run

        facts = open_read(tmp_path / "old").study
        with Run.create_or_open(tmp_path / "old", facts, "grid", fh.GridSearch().number) as run:
            run.record.set(**{CHOICE: None})  # as 0.2.0 left it
            run.stop("as before")
        result = fh.tune(opened, SPACE, fh.GridSearch(), rounds=2, total=4, cohort=8, run=tmp_path / "old")
    assert result.best_config.client["lr"] == 0.1
    assert "choice" not in result.facts["evaluation"]


def test_a_simulation_chooses_by_means_unless_asked(tmp_path):
    data = fh.load("digits", clients=10)
    with fh.simulate("linear", data, workers=0) as simulated:
        ours = {"rounds": 1, "total": 2, "cohort": 2}
        result = fh.tune(simulated, SPACE, fh.GridSearch(), **ours)
        asked = fh.tune(simulated, SPACE, fh.GridSearch(), **ours, evaluation=fh.Evaluator(choice="trimmed"))
    assert "choice" not in result.facts["evaluation"]
    assert "trust" not in result.facts
    assert asked.facts["evaluation"]["choice"] == "trimmed"


# Updates that no model can take


def huge(hostile):
    def train(arrays, task, context):
        lies = context.node_config["partition-id"] in hostile
        return Trained({"w": np.full_like(arrays["w"], 1e38 if lies else 1.0)}, train_size=10)

    return train


@pytest.mark.parametrize("cohort", [[0, 1], [0, 1, 2], [0, 1, 2, 3], range(8)])
def test_two_clients_of_any_cohort_that_send_1e38_move_nothing(cohort):
    with federation(train=huge({0, 1})) as opened:
        opened.start(0, {}, 0)
        [report] = opened.round([Work(0, list(cohort), {"lr": 0.1})])
        honest = len(cohort) - 2
        assert report.status.tolist() == [Status.FAILED] * 2 + [Status.OK] * honest
        assert {reason.why for reason in report.reasons.values()} == {Why.TOO_LARGE}
        assert opened.model(0)["w"].tolist() == [float(honest > 0)] * 2


def test_a_cohort_of_such_clients_alone_is_drawn_again():
    """One in seven cohorts of one client is hostile: its round is repeated, the trial does not fail."""
    with federation(train=huge({0, 1}), evaluate=lambda *_: Scored(10, 0.5, 0.5)) as opened:
        result = fh.tune(opened, SPACE, fh.GridSearch(), rounds=8, total=60, cohort=1, seed=1)
    assert [trial["status"] for trial in result.facts["trials"]] == ["finished"] * 2
    assert result.facts["cost"]["repeated_rounds"] > 0
