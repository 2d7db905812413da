"""A Flower app that knows nothing of fedhpo is tuned as it is."""

import json
import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.federations.apps.app_file import read_app
from fedhpo.federations.apps.captured import capture
from fedhpo.federations.apps.in_process import app_in_process
from fedhpo.federations.apps.loaded import load_client, load_server
from fedhpo.flower import InProcessGrid, run_in_process, tuned, wrap
from fedhpo.protocol.federation import Status, TrialState, Work
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.study import Study
from fedhpo.testing.federation import FederationSuite

APP = Path(__file__).parent / "apps"
LOSS = Objective("eval_loss", direction="minimize")
LR = {"learning-rate": 0.5}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the app keeps state")
        yield


def federation(**options):
    return app_in_process(APP, 6, LOSS, **options)


class TestSuite(FederationSuite):
    """An app in process passes the suite that all federations pass."""

    client = LR
    idle_client = {"learning-rate": 0.0}  # noqa: RUF012
    server = {"server_momentum": 0.9}  # noqa: RUF012
    model = {"width": 2}  # noqa: RUF012
    other_model = {"width": 3}  # noqa: RUF012
    test_an_unknown_hyperparameter_is_named_with_the_known = None  # see below: the names are the app's

    def make(self):
        return federation()


def test_the_strategy_is_captured_where_it_would_start():
    found = capture(load_server(read_app(APP)), read_app(APP).config, {"server_momentum": 0.5}, 6, seed=1)
    assert type(found.strategy).__name__ == "Halving"
    assert found.strategy.server_momentum == 0.5
    assert found.train_config == {"lr": 0.1}
    assert found.arrays["steps"].dtype == np.int64
    assert found.rounds == 3
    again = capture(load_server(read_app(APP)), {**read_app(APP).config, "learning-rate": 0.3}, {}, 6, seed=1)
    assert again.train_config == {"lr": 0.3}
    assert np.array_equal(again.arrays["w"], found.arrays["w"])


def test_rounds_are_those_of_the_app_by_hand():
    """Local steps under the trial's rate, weighed by rows; from round 2 on the strategy halves the rate."""
    with federation() as one:
        one.start(0, {}, seed=3)
        first = one.model(0)["w"]
        w = first.copy()
        for rate in (0.5, 0.25, 0.25):
            one.round([Work(0, [0, 2], {**LR, "local-epochs": 1})])
            moved = [w - rate * (w - (1 + 0.1 * i)) for i in (0, 2)]
            w = (10 * moved[0] + 12 * moved[1]) / 22
            np.testing.assert_allclose(one.model(0)["w"], w, atol=0.01)  # the app's own noise
        assert one.model(0)["steps"].tolist() == [3]


def test_each_client_may_have_its_own_config():
    with federation() as one:
        one.start(0, {}, seed=3)
        first = one.model(0)["w"]
        one.round([Work(0, [0, 2], [{"learning-rate": 0.0}, {"learning-rate": 1.0}])])
        expected = (10 * first + 12 * np.full(2, 1.2)) / 22
        np.testing.assert_allclose(one.model(0)["w"], expected, atol=0.01)


def test_the_keys_of_the_config_that_the_server_sends_can_be_tuned_too():
    with federation() as one:
        one.start(0, {}, seed=3)
        one.round([Work(0, [0], {"lr": 1.0})])
        np.testing.assert_allclose(one.model(0)["w"], np.ones(2), atol=0.01)


@pytest.mark.parametrize("server", [{}, {"server_momentum": 0.9, "server_learning_rate": 0.5}])
def test_fork_and_resume_are_identical(server):
    def rounds(one, trial, count):
        for _ in range(count):
            one.round([Work(trial, [0, 1, 3], LR, server)])

    with federation() as one:
        one.start(0, {}, seed=3)
        rounds(one, 0, 2)
        saved = one.state(0)
        rounds(one, 0, 2)
        whole = one.model(0)["w"]
    with federation() as one:
        one.restore(0, TrialState(saved.arrays, json.loads(json.dumps(dict(saved.facts)))))
        rounds(one, 0, 2)
        assert one.model(0)["w"].tobytes() == whole.tobytes()


def test_names_that_the_app_has_nowhere_are_refused():
    with federation() as one:
        one.start(0, {}, seed=0)
        with pytest.raises(InputError, match=r"space\.client\.learning_rate.*did you mean 'learning-rate'"):
            one.round([Work(0, [0], {"learning_rate": 0.1})])
        with pytest.raises(InputError, match=r"space\.server.*argument of Halving 'eta'"):
            one.round([Work(0, [0], LR, {"eta": 0.1})])


def test_keys_that_the_app_never_reads_are_told():
    with federation() as one:
        one.start(0, {}, seed=0)
        with pytest.warns(UserWarning, match=r"space\.client\.unused: the app never reads"):
            one.round([Work(0, [0], {"unused": 3})])


def test_a_metric_that_the_app_does_not_return_is_refused_before_any_round():
    tables = {**TABLES, "objective": {"metric": "auc", "direction": "maximize"}}
    with pytest.raises(InputError, match=r"eval_loss, eval_score.*no 'auc'"):
        Study.from_dict(tables).tune()


def test_a_further_metric_that_the_app_does_not_return_is_told():
    objective = {"metric": "eval_loss", "direction": "minimize", "also": ["eval_score", "auc"]}
    with pytest.warns(UserWarning, match=r"objective\.also: a client of the app was asked, and has no auc$"):
        Study.from_dict({**TABLES, "objective": objective}).tune()


def test_the_state_of_trials_that_ended_is_forgotten_at_clients():
    app = wrap(load_client(read_app(APP)))
    grid = InProcessGrid(app, 2, read_app(APP).config)
    from fedhpo.federations.apps.federation import AppFederation

    with AppFederation(grid, read_app(APP), load_server(read_app(APP)), LOSS, clients=2) as one:
        for trial in (0, 1):
            one.start(trial, {}, seed=trial)
        for _ in range(2):
            one.round([Work(trial, [0, 1], LR) for trial in (0, 1)])
        [state, _] = [context.state for context in grid.contexts.values()]
        assert {key: state[key]["calls"] for key in state} == {
            "fedhpo.trial.0.count": 2,
            "fedhpo.trial.1.count": 2,
        }
        one.stop(0)
        one.round([Work(1, [0, 1], LR)])
        assert list(state) == ["fedhpo.trial.1.count"]


def test_a_wrapped_app_still_answers_its_own_server():
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg

    server, found = ServerApp(), []

    @server.main()
    def main(grid, context):
        from flwr.app import Array, ArrayRecord, ConfigRecord

        first = ArrayRecord({"w": Array(np.zeros(2)), "steps": Array(np.zeros(1, np.int64))})
        found.append(FedAvg().start(grid, first, num_rounds=1, train_config=ConfigRecord({"lr": 1.0})))

    run_in_process(server, wrap(load_client(read_app(APP))), 3, read_app(APP).config)
    np.testing.assert_allclose(found[0].arrays["w"].numpy(), np.full(2, 1.1), atol=0.02)


TABLES = {
    "app": {"path": str(APP), "clients": 6},
    "space": {
        "client": {
            "learning-rate": {"low": 0.01, "high": 1.0, "log": True},
            "params": {"decay": {"low": 0.0, "high": 0.5}},
        },
        "server": {"server_momentum": {"choices": [0.0, 0.5]}},
    },
    "objective": {"metric": "eval_loss", "direction": "minimize", "also": ["eval_score"]},
    "method": {"name": "sha", "trials": 4},
    "budget": {"rounds": 3, "total": 12, "cohort": 3},
}


def test_a_study_of_an_app_is_tuned_and_resumed(tmp_path):
    study = Study.from_dict(TABLES)
    assert study.space.default().client == {"learning-rate": 0.1, "params.decay": 0.0}
    whole = study.tune(tmp_path / "whole")

    rounds = []

    def stop(event):
        rounds.append(event)
        return len(rounds) > 6

    study.tune(tmp_path / "run", callbacks=[stop])
    again = study.tune(tmp_path / "run")
    facts = [{k: v for k, v in r.facts.items() if k != "times"} for r in (whole, again)]
    assert facts[0] == facts[1]
    block = (tmp_path / "run" / "flower-config.toml").read_text()
    best = again.best_config
    assert f"learning-rate = {best.client['learning-rate']}" in block
    assert f"params.decay = {best.client['params.decay']}" in block
    assert "# server_momentum" in block
    assert again.best_score < 0.3


@pytest.mark.parametrize("method", [{"name": "fedex", "schedule": "fixed"}, {"name": "fedpop"}])
def test_methods_that_give_each_client_its_own_config(method):
    tables = {**TABLES, "method": method, "budget": {"rounds": 3, "total": 9, "cohort": 3}}
    assert Study.from_dict(tables).tune().facts["status"] == "finished"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"name": "digits"}}, "data: leave it out"),
        ({"app": {"path": "nowhere"}}, r"app\.path = 'nowhere': pyproject\.toml cannot be read"),
        ({"objective": {}}, r"objective\.metric is missing"),
        ({"space": {"client": {}}}, "space has nothing to tune"),
        ({"budget": {"rounds": 1, "cohort": 9}}, r"budget\.cohort = 9: must be at most app\.clients"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(InputError, match=message):
        Study.from_dict({**TABLES, **change})


def test_the_command_line_prints_what_to_paste(tmp_path, capsys):
    study = tmp_path / "study.toml"
    study.write_text(
        """
        [space.client]
        learning-rate = { low = 0.01, high = 1.0, log = true }
        params.decay = 0.0
        [objective]
        metric = "eval_score"
        direction = "maximize"
        [method]
        name = "random"
        trials = 2
        [budget]
        rounds = 2
        total = 4
        cohort = 3
        """
    )
    code = main(["flower", "tune", str(APP), str(study), "--runs", str(tmp_path / "runs"), "--quiet"])
    printed = capsys.readouterr().out
    assert code == 0
    assert "[tool.flwr.app.config]" in printed
    assert "learning-rate = " in printed


def test_by_hand_with_a_line_at_either_side(tmp_path):
    study = Study.from_dict(TABLES)
    server = tuned(load_server(read_app(APP)), study)
    config = {**read_app(APP).config, "run-dir": str(tmp_path / "run")}
    run_in_process(server, wrap(load_client(read_app(APP))), 6, config)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "finished"


def test_an_app_that_moved_goes_on_and_one_that_changed_does_not(tmp_path):
    """Flower puts an app into a new place whenever one of its files changes; only its code counts."""
    moved = tmp_path / "moved"
    shutil.copytree(APP, moved)
    config = {**read_app(APP).config, "run-dir": str(tmp_path / "run")}
    client, results = CountingGrid(wrap(load_client(read_app(APP))), 6, config), []
    for place in (APP, moved, moved):
        study = Study.from_dict({**TABLES, "app": {"path": str(place), "clients": 6}})
        server = tuned(load_server(read_app(APP)), study)
        if len(results) == 2:
            (moved / "tinyapp" / "client_app.py").write_text("changed = True\n")
            with pytest.raises(InputError, match="app"):
                server(client, Context(1, 1, {}, RecordDict(), config))
        else:
            server(client, Context(1, 1, {}, RecordDict(), config))
            found = json.loads((tmp_path / "run" / "result.json").read_text())
            results.append((found["best"], client.trainings))
    assert results[0] == results[1]  # nothing was trained again


class CountingGrid(InProcessGrid):
    """Counts how often nodes were asked to train."""

    trainings = 0

    def answer(self, message):
        self.trainings += message.metadata.message_type == "train"
        return super().answer(message)


def test_a_client_that_fails_is_told_and_the_others_go_on():
    with federation() as one:
        one.start(0, {}, seed=0)
        report = one.round([Work(0, [0, 1], [{"lr": 0.1}, {"lr": float("inf")}])])[0]
        assert report.status.tolist() == [Status.OK, Status.FAILED]
        assert report.reasons[1] == Reason(Why.DIVERGED)


def test_clients_without_fedhpo_are_served_with_what_that_allows(tmp_path):
    tables = {**TABLES, "space": {"client": {"learning-rate": TABLES["space"]["client"]["learning-rate"]}}}
    server = tuned(load_server(read_app(APP)), Study.from_dict(tables))
    config = {**read_app(APP).config, "run-dir": str(tmp_path / "run")}
    with pytest.warns(UserWarning, match="the clients' app is not wrapped"):
        run_in_process(server, load_client(read_app(APP)), 6, config)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "finished"


def test_keys_that_only_clients_read_are_refused_where_clients_have_no_fedhpo(tmp_path):
    tables = {**TABLES, "space": {"client": {"local-epochs": {"low": 1, "high": 3}}}}
    server = tuned(load_server(read_app(APP)), Study.from_dict(tables))
    config = {**read_app(APP).config, "run-dir": str(tmp_path / "run")}
    with pytest.raises(InputError, match=r"space\.client\.local-epochs: clients without fedhpo"):
        run_in_process(server, load_client(read_app(APP)), 6, config)


def test_an_app_that_cannot_be_loaded_is_not_taken_for_one_without_fedhpo(tmp_path):
    """Told at once, with the reason: waiting does not help where all nodes are there."""

    def not_loaded(message, context):
        raise ModuleNotFoundError("No module named 'nosuch'")

    server = tuned(load_server(read_app(APP)), Study.from_dict(TABLES))
    config = {**read_app(APP).config, "run-dir": str(tmp_path / "run")}
    with (
        pytest.warns(UserWarning, match="cannot take part"),
        pytest.raises(InputError, match=r"none of 6 clients can take part.*No module named 'nosuch'"),
    ):
        run_in_process(server, not_loaded, 6, config)


def test_an_app_is_written_around_the_users(tmp_path, capsys):
    study = tmp_path / "study.toml"
    study.write_text(
        '[space.client]\nlearning-rate = { low = 0.01, high = 1.0 }\n[objective]\nmetric = "eval_loss"\n'
        'direction = "minimize"\n[budget]\nrounds = 1\ntotal = 2\ncohort = 2\n'
    )
    around = tmp_path / "around"
    arguments = ["flower", "wrap", str(APP), str(study), str(around), "--runs", str(tmp_path / "runs")]
    assert main(arguments) == 0
    assert f"flwr run {around}" in capsys.readouterr().out
    found = read_app(around)
    assert found.components["clientapp"] == "fedhpo_client_app:app"
    assert found.module("client_app") == "tinyapp.client_app"  # as in process
    assert found.config["run-dir"] == str(tmp_path / "runs" / "study")
    client = load_client(found)
    # Ray's actors get the app by importing its module, whose first lines make the machine ready.
    assert pickle.loads(pickle.dumps(client)) is client
    run_in_process(load_server(found), client, 3, found.config)
    result = json.loads((tmp_path / "runs" / "study" / "result.json").read_text())
    assert result["status"] == "finished"
