"""Apps on which a tuner may err without a word: each is tuned rightly, refused, or warned of."""

import json
import math
import re
import warnings

import numpy as np
import pytest
from trap_apps import (
    EVALUATE,
    OLDER_EVALUATE,
    OLDER_STRATEGY,
    module_of,
    tables,
    write_app,
)

from fedhpo.cli import main as command
from fedhpo.core.errors import InputError
from fedhpo.federations.apps.in_process import app_in_process
from fedhpo.protocol.federation import Status, Work
from fedhpo.protocol.objective import Objective
from fedhpo.study import Study

SERVER = {"metric": "val_loss", "direction": "minimize", "from": "server"}
TRAINING = {"metric": "train_loss", "direction": "minimize", "from": "training"}
CENTRAL = (
    "evaluate_fn=lambda r, a: MetricRecord({('val_loss' if r < config['num-server-rounds'] else 'test_loss'):"
    " loss(a['w'].numpy(), 0)}),"
)
LITERAL = {"client": {"task:Step.lr": {"low": 0.01, "high": 1.0, "log": True}}}
STEP = "step = Step(lr=0.05)\n    w = fit(w, place, step.lr)"


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Clients are real")
        yield


def federation(app, metric="eval_loss", clients=4, **options):
    objective = Objective(metric, direction="minimize", **options.pop("objective", {}))
    return app_in_process(app, clients, objective, **options)


def trained(app, client, rounds=1, metric="eval_loss", cohort=(0, 1), rounds_of_study=None, **options):
    """A trial's model after some rounds."""
    with federation(app, metric, rounds=rounds_of_study, **options) as one:
        one.start(0, {}, seed=1)
        for _ in range(rounds):
            [report] = one.round([Work(0, list(cohort), client)])
            assert report.applied, report.reasons
        return next(iter(one.model(0).values()))


# 1 to 7: where scores come from


def test_clients_without_evaluate_are_refused_with_the_choices(tmp_path):
    app = write_app(tmp_path, evaluate=None)
    with pytest.raises(InputError, match=r"no evaluate.*an evaluate_fn, which the app has not.*'?training"):
        Study.from_dict(tables(app)).tune()


def test_the_server_scores_with_its_validation_rows_until_the_end(tmp_path):
    """whisper's convention: val_* before the last round, then test_*."""
    app = write_app(tmp_path, evaluate=None, start=CENTRAL)
    result = Study.from_dict(tables(app, objective=SERVER)).tune(tmp_path / "run")
    rate = result.best_config.client["learning-rate"]
    [best] = [one for one in result.facts["trials"] if one["trial"] == result.facts["best"]["trial"]]
    assert best["rounds"] == 2
    assert 0 < result.best_score < (1 - rate) ** 2  # a second round went on from the first
    assert result.facts["objective"]["from"] == "server"
    assert "test set" in result.facts["objective"]["metric_is"]
    assert result.facts["best"]["validation"]["standard_error"] is None
    assert result.facts["best"]["test"] is None
    assert result.facts["cost"]["evaluations"] == 0
    assert "server's val_loss" in str(result)


def test_a_score_of_the_server_by_hand(tmp_path):
    app = write_app(tmp_path, evaluate=None, start=CENTRAL)
    with federation(app, "val_loss", objective={"from_": "server"}) as one:
        one.start(0, {}, seed=1)
        one.round([Work(0, [0, 2], {"learning-rate": 0.5})])
        [scores] = one.evaluate([0], one.validation_clients)
        assert scores.loss.tolist() == pytest.approx([(1 - 0.5 * (1.0 + 1.2) / 2) ** 2])
        assert len(one.train_clients) == 4
        assert list(one.validation_clients) == [4]  # no client's number


def test_a_metric_that_the_server_does_not_return_is_refused(tmp_path):
    app = write_app(tmp_path, evaluate=None, start=CENTRAL)
    with pytest.raises(InputError, match=r"objective\.metric = 'auc'.*val_loss"):
        Study.from_dict(tables(app, objective={**SERVER, "metric": "auc"})).tune()


def test_a_server_without_evaluate_fn_is_refused_as_a_source(tmp_path):
    with pytest.raises(InputError, match="has no evaluate_fn"):
        Study.from_dict(tables(write_app(tmp_path), objective=SERVER)).tune()


def test_the_training_loss_is_marked_as_such(tmp_path):
    app = write_app(tmp_path, evaluate=None)
    with federation(app, "train_loss", objective={"from_": "training"}) as one:
        one.start(0, {}, seed=1)
        one.round([Work(0, [0, 2], {"learning-rate": 0.5})])
        [scores] = one.evaluate([0], one.validation_clients)
        after = [((0.5 * t) - t) ** 2 for t in (1.0, 1.2)]
        assert scores.loss.tolist() == pytest.approx([np.mean(after)])
    result = Study.from_dict(tables(app, objective=TRAINING)).tune()
    assert "while weights moved" in result.facts["objective"]["metric_is"]
    with pytest.raises(InputError, match=r"training returns num-examples, train_loss"):
        Study.from_dict(tables(app, objective={**TRAINING, "metric": "loss"})).tune()


def test_a_call_at_rate_0_scores_the_received_model(tmp_path):
    app = write_app(tmp_path, evaluate=None)
    zero = {"from_": "training", "at_zero": ["learning-rate"]}
    with federation(app, "train_loss", objective=zero) as one:
        one.start(0, {}, seed=1)
        one.round([Work(0, [0, 2], {"learning-rate": 0.5})])
        w = one.model(0)["w"][0]
        [scores] = one.evaluate([0], [0, 3])
        assert scores.loss.tolist() == pytest.approx([(w - 1.0) ** 2, (w - 1.3) ** 2])


def test_a_call_at_rate_0_is_refused_where_the_model_moves_all_the_same(tmp_path):
    """As BatchNorm's averages do."""
    app = write_app(tmp_path, evaluate=None, train="w = fit(w, place, 0.1)")
    objective = {**TRAINING, "at_zero": ["learning-rate"]}
    with pytest.raises(InputError, match=r"learning-rate at 0 changes the model all the same: w"):
        Study.from_dict(tables(app, objective=objective)).tune()


def test_a_call_at_rate_0_is_refused_where_the_space_changes_the_loss(tmp_path):
    config = "learning-rate = 0.1\nlocal-epochs = 1\nnum-server-rounds = 3\nlabel-smoothing = 0.1"
    app = write_app(tmp_path, evaluate=None, config=config)
    space = {"client": {"label-smoothing": {"low": 0.0, "high": 0.3}}}
    objective = {**TRAINING, "at_zero": ["learning-rate"]}
    with pytest.raises(InputError, match="label-smoothing, by which the loss itself changes"):
        Study.from_dict(tables(app, space=space, objective=objective)).tune()


@pytest.mark.filterwarnings("ignore:space.client")
def test_a_source_is_for_apps_only():
    study = {
        "data": {"name": "digits", "clients": 4},
        "model": {"name": "mlp"},
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
        "objective": {"metric": "loss", "from": "server"},
        "budget": {"rounds": 1},
    }
    with pytest.raises(InputError, match=r"objective\.from = 'server' is for Flower apps"):
        Study.from_dict(study)


# 8 to 11: replies


def test_a_config_record_in_replies_reaches_the_strategy(tmp_path):
    """whisper's flag: clients that did not train are left out by the app's own strategy."""
    top = """
class Trained(FedAvg):
    def aggregate_train(self, server_round, replies):
        kept = [one for one in replies if next(iter(one.content.config_records.values()))["trained"]]
        return super().aggregate_train(server_round, kept)
"""
    app = write_app(
        tmp_path,
        after='content["flag"] = ConfigRecord({"trained": place == 0})',
        top=top,
        strategy="Trained()",
    )
    assert trained(app, {"learning-rate": 0.5}).tolist() == pytest.approx([0.5, 0.5])  # client 0 alone


def test_lists_of_metrics_reach_the_strategy_and_the_objective(tmp_path):
    evaluate = EVALUATE.replace('"eval_loss": loss(w, place)', '"errors": [loss(w, place), 1.0]')
    app = write_app(tmp_path, evaluate=evaluate, after='content["metrics"]["many"] = [1.0, 2.0]')
    result = Study.from_dict(tables(app, objective={"metric": "errors[0]", "direction": "minimize"})).tune()
    assert 0 < result.best_score < 1
    with pytest.raises(InputError, match=r"errors\[0\], errors\[1\].*no 'errors'"):
        Study.from_dict(tables(app, objective={"metric": "errors", "direction": "minimize"})).tune()


def test_two_models_in_a_reply_are_refused_by_name(tmp_path):
    app = write_app(tmp_path, after='content["control"] = ArrayRecord({"c": Array(w)})')
    with federation(app) as one:
        one.start(0, {}, seed=1)
        [report] = one.round([Work(0, [0], {"learning-rate": 0.5})])
    assert report.status[0] == Status.FAILED
    assert "2 ArrayRecords ('arrays', 'control')" in str(report.reasons[0])


def test_records_keep_their_own_names(tmp_path):
    top = """
class Named(FedAvg):
    def aggregate_train(self, server_round, replies):
        assert all("mine" in one.content for one in replies)
        return super().aggregate_train(server_round, replies)
"""
    app = write_app(
        tmp_path,
        after='content["mine"] = content.pop("metrics")',
        top=top,
        strategy="Named()",
    )
    assert trained(app, {"learning-rate": 1.0}, cohort=[1]).tolist() == pytest.approx([1.1, 1.1])


# 12 to 17: the older API


def older(tmp_path, **parts):
    return write_app(
        tmp_path, older=True, **{"evaluate": OLDER_EVALUATE, "strategy": OLDER_STRATEGY, **parts}
    )


def test_an_app_of_the_older_api_is_trained_by_hand(tmp_path):
    app = older(tmp_path)
    w = 0.0
    for rate in (0.4, 0.4, 0.1):  # the app's own schedule: lower from round 3 on
        moved = [w - rate * (w - t) for t in (1.0, 1.2)]
        w = (10 * moved[0] + 12 * moved[1]) / 22
    assert trained(app, {}, rounds=3, metric="loss", cohort=[0, 2]).tolist() == pytest.approx([w, w])
    w = (10 * 0.5 + 12 * 0.6) / 22
    assert trained(app, {"lr": 0.5}, metric="loss", cohort=[0, 2]).tolist() == pytest.approx([w, w])


@pytest.mark.parametrize("metric", ["loss", "cen_accuracy"])
def test_the_older_api_is_tuned_by_clients_and_by_the_server(tmp_path, metric):
    space = {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}, "local-epochs": {"low": 1, "high": 3}}}
    objective = {"metric": "loss", "direction": "minimize"}
    if metric != "loss":
        objective = {"metric": metric, "direction": "maximize", "from": "server"}
    result = Study.from_dict(tables(older(tmp_path), space=space, objective=objective)).tune()
    assert result.best_score == pytest.approx(0.25) if metric != "loss" else result.best_score < 1.2


def test_strategies_of_the_older_api_remember(tmp_path):
    """Momentum is the server's: two rounds at once are the same as one, kept, and another."""
    strategy = OLDER_STRATEGY.replace("FedAvg(", "FedAvgM(server_momentum=0.5, server_learning_rate=1.0, ")
    app = older(tmp_path, strategy=strategy)
    whole = trained(app, {"lr": 0.5}, rounds=2, metric="loss")
    with federation(app, "loss") as one:
        one.start(0, {}, seed=1)
        one.round([Work(0, [0, 1], {"lr": 0.5})])
        kept = one.state(0)
        one.restore(1, type(kept)(kept.arrays, json.loads(json.dumps(dict(kept.facts)))))
        one.round([Work(1, [0, 1], {"lr": 0.5})])
        assert one.model(1)["0"].tolist() == whole.tolist()
    first = 0.5 * (10 * 1.0 + 11 * 1.1) / 21
    second = first + 0.5 * ((10 * (1 - first) + 11 * (1.1 - first)) / 21)
    assert whole[0] > second + 0.2  # further than without momentum


def test_a_server_class_of_the_apps_own_is_refused(tmp_path):
    app = older(tmp_path, more=", server=OwnServer(client_manager=SimpleClientManager(), strategy=strategy)")
    with pytest.raises(InputError, match=r"OwnServer, a subclass of flwr\.server\.Server"):
        Study.from_dict(tables(app, objective={"metric": "loss"})).tune()


def test_a_client_of_the_older_api_without_evaluate_is_not_scored_as_0(tmp_path):
    app = older(tmp_path, evaluate="")
    study = tables(app, space={"client": {"lr": {"low": 0.01, "high": 1.0}}}, objective={"metric": "loss"})
    with pytest.raises(InputError, match=r"have no evaluate; \[objective\] from = \"server\""):
        Study.from_dict(study).tune()


def test_evaluation_that_an_app_skips_is_not_taken_for_a_score(tmp_path):
    evaluate = """
    def evaluate(self, parameters, config):
        return (0.0 if config["skip"] else loss(parameters[0], self.place)), 10, {}
"""
    skip = "on_evaluate_config_fn=lambda r: {'skip': r % 5 != 0}, "
    app = older(tmp_path, evaluate=evaluate, strategy=OLDER_STRATEGY.replace("FedAvg(", f"FedAvg({skip}"))
    with federation(app, "loss") as one:
        one.start(0, {}, seed=1)
        [scores] = one.evaluate([0], [0, 1])
    assert scores.loss.tolist() == pytest.approx([1.0, 1.21])


# 18, 19: loops of an app's own


@pytest.mark.parametrize("body", ["grid.push_messages([])", "grid.get_node_ids()"])
def test_an_app_that_drives_its_rounds_is_told_the_two_lines(tmp_path, body):
    server = f"""
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    {body}
"""
    app = write_app(tmp_path, server=server)
    with pytest.raises(InputError, match=r"fedhpo\.flower\.client\(.*fedhpo\.flower\.tune\(grid, context"):
        Study.from_dict(tables(app)).tune()


# 20 to 23: values in code


def test_a_literal_is_bound_where_the_app_calls_it(tmp_path):
    app = write_app(tmp_path, train=STEP)
    assert trained(app, {"client_app:Step.lr": 0.5}, cohort=[0]).tolist() == pytest.approx([0.5, 0.5])
    assert trained(app, {}, cohort=[0]).tolist() == pytest.approx([0.05, 0.05])  # as it was before
    found = trained(app, {"task:Step.lr": 0.5, "task:fit.epochs": 2}, cohort=[0])
    assert found.tolist() == pytest.approx([0.75, 0.75])
    assert isinstance(module_of(app, "task").Step(), module_of(app, "client_app").Step)


def test_the_block_names_file_line_and_argument(tmp_path):
    app = write_app(tmp_path, train=STEP)
    Study.from_dict(tables(app, space=LITERAL)).tune(tmp_path / "run")
    block = (tmp_path / "run" / "flower-config.toml").read_text()
    text = (app / app.name / "client_app.py").read_text().split("\n")
    line = next(place for place, one in enumerate(text, 1) if "Step(lr" in one)
    assert re.search(
        rf"task:Step\.lr = 0\.\d+: {app.name}/client_app\.py, line {line}, the argument lr", block
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("task:Stop.lr", r"space\.client\.trap\d+\.task:Stop\.lr: unknown name in .*did you mean 'Step'"),
        ("task:Step.rate", r"unknown argument of Step 'rate'; known: lr, momentum"),
        ("nowhere:Step.lr", "module 'nowhere' cannot be imported"),
        ("os:system.command", "Python's own modules"),
    ],
)
def test_literals_that_lead_nowhere_are_refused(tmp_path, name, message):
    app = write_app(tmp_path, train=STEP)
    space = {"client": {name: {"low": 0.01, "high": 1.0}}}
    with pytest.raises(InputError, match=message):
        Study.from_dict(tables(app, space=space)).tune()


def test_a_literal_that_training_never_comes_by_is_warned_of(tmp_path):
    app = write_app(tmp_path)
    with federation(app) as one:
        one.start(0, {}, seed=1)
        with pytest.warns(UserWarning, match=r"never comes by task:Step"):
            one.round([Work(0, [0], {"task:Step.lr": 0.5})])


# 24 to 30: no silent lies


@pytest.mark.parametrize("name", ["fraction_train", "min_train_nodes", "fraction_evaluate"])
def test_arguments_that_are_set_aside_are_refused(tmp_path, name):
    space = {"client": {"learning-rate": 0.1}, "server": {name: {"low": 0.1, "high": 1.0}}}
    with pytest.raises(InputError, match=rf"space\.server\.{name}: has no effect.*budget\.cohort"):
        Study.from_dict(tables(write_app(tmp_path), space=space)).tune()


def test_the_apps_rounds_follow_the_study_and_the_run_says_so(tmp_path):
    """A cosine at the clients ends where the study does, not after the app's own 100 rounds."""
    config = "learning-rate = 1.0\nlocal-epochs = 1\nnum-server-rounds = 100"
    train = """import math
    part = msg.content["config"]["server-round"] / context.run_config["num-server-rounds"]
    w = fit(w, place, 0.5 * (1 + math.cos(math.pi * part)))"""
    app = write_app(tmp_path, config=config, train=train)
    study = Study.from_dict(tables(app, budget={"rounds": 2, "total": 4, "cohort": 2}))
    assert any("num-server-rounds is 2" in line and "100" in line for line in study.said())
    # Round 1 of 2: half the rate; round 2 of 2: none at all.
    found = trained(app, {}, rounds=2, cohort=[0], rounds_of_study=2)
    assert found.tolist() == pytest.approx([0.5, 0.5])
    fixed = {"client": {"learning-rate": {"low": 0.1, "high": 1.0}, "num-server-rounds": 100}}
    assert not any("num-server-rounds" in line for line in Study.from_dict(tables(app, space=fixed)).said())


def test_a_rungs_schedule_ends_with_the_rung_where_clients_read_the_rounds(tmp_path):
    """A schedule that ends with the rung has a rate of 0 there: the second of two rounds moves nothing."""
    config = "learning-rate = 1.0\nlocal-epochs = 1\nnum-server-rounds = 100"
    train = """
    part = msg.content["config"]["server-round"] / context.run_config["num-server-rounds"]
    w = fit(w, place, 1.0 - part)"""
    app = write_app(tmp_path, config=config, train=train)
    moved = []
    with federation(app, rounds=100) as one:
        for trial, horizon in enumerate((2, None)):
            one.start(trial, {}, seed=1)
            for _ in range(2):
                before = one.model(trial)["w"]
                one.round([Work(trial, [trial], {}, horizon=horizon)])
            moved.append(float(np.abs(one.model(trial)["w"] - before).max()))
    assert moved[0] == 0 < moved[1]
    rung = {"rounds": 4, "total": 16, "cohort": 2, "horizon": "rung"}
    halving = {"name": "sha", "trials": 3, "finalists": 1}
    result = Study.from_dict(tables(app, budget=rung, method=halving)).tune()
    assert result.cost["rounds"] == 10  # three trials of two rounds, and one of four anew


def test_a_rungs_schedule_is_refused_where_no_client_reads_the_rounds(tmp_path):
    rung = {"rounds": 4, "total": 16, "cohort": 2, "horizon": "rung"}
    study = Study.from_dict(tables(write_app(tmp_path), budget=rung, method={"name": "sha"}))
    with pytest.raises(InputError, match="nothing in the app reads 'num-server-rounds' for a schedule"):
        study.tune()


def test_what_an_app_prints_goes_to_standard_error(tmp_path, capsys):
    app = write_app(tmp_path, before='print("from the client")', main='print("from the server")')
    study = tmp_path / "study.toml"
    study.write_text(
        """
        [space.client]
        learning-rate = { low = 0.01, high = 1.0, log = true }
        [objective]
        metric = "eval_loss"
        direction = "minimize"
        [method]
        name = "random"
        trials = 2
        [budget]
        rounds = 1
        total = 2
        cohort = 2
        """,
        encoding="utf-8",
    )
    arguments = ["flower", "tune", str(app), str(study), "--json", "--runs", str(tmp_path / "runs")]
    assert command(arguments) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)
    assert "from the client" in told.err
    assert "from the server" in told.err


def test_a_save_path_of_the_server_is_there_for_clients(tmp_path):
    main = """import os
    path = os.path.join(os.getcwd(), "results")
    os.makedirs(path, exist_ok=True)"""
    app = write_app(
        tmp_path,
        main=main,
        start='train_config=ConfigRecord({"save_path": path}),',
        before='open(msg.content["config"]["save_path"] + "/weights.txt", "w").write("1")',
    )
    assert trained(app, {"learning-rate": 1.0}, cohort=[0]).tolist() == [1.0, 1.0]


def test_configs_that_the_server_cannot_tell_apart_share_one_main(tmp_path):
    app = write_app(tmp_path)
    with federation(app) as one:
        one.start(0, {}, seed=1)
        calls = module_of(app, "server_app").CALLS
        before = len(calls)
        for rate in (0.1, 0.2, 0.3, 0.4):
            one.round([Work(0, [0, 1], {"learning-rate": rate})])
        assert len(calls) == before + 1


def test_configs_that_the_server_reads_have_each_their_own(tmp_path):
    app = write_app(
        tmp_path,
        start='train_config=ConfigRecord({"lr": config["learning-rate"]}),',
        train='w = fit(w, place, msg.content["config"]["lr"])',
    )
    for rate in (0.25, 0.5):
        found = trained(app, {"learning-rate": rate}, cohort=[0])
        assert found.tolist() == pytest.approx([rate, rate])


def test_clients_score_before_training_only_where_a_method_needs_it(tmp_path):
    def evaluations(**changes):
        evaluate = "SCORED = []\n" + EVALUATE.replace("    w = msg", "    SCORED.append(1)\n    w = msg", 1)
        app = write_app(tmp_path, evaluate=evaluate)
        Study.from_dict(tables(app) | {"app": {"path": str(app), "clients": 4, **changes}}).tune()
        return len(module_of(app, "client_app").SCORED)

    few, many = evaluations(), evaluations(learning_curve=True)
    assert many - few == 8  # four rounds of two clients


def test_node_configs_of_the_apps_own_are_given(tmp_path):
    (tmp_path / "rate-0").write_text("0.5")
    (tmp_path / "rate-1").write_text("0.25")
    app = write_app(
        tmp_path, train='w = fit(w, place, float(open(context.node_config["dataset-path"]).read()))'
    )
    found = trained(app, {}, cohort=[1], clients=2, node_config={"dataset-path": f"{tmp_path}/rate-{{}}"})
    assert found.tolist() == pytest.approx([0.25 * 1.1] * 2)


def test_a_model_that_diverges_is_no_winner(tmp_path):
    train = "w = fit(w, place, 1e200 if context.run_config['learning-rate'] > 0.05 else 0.5, 3)"
    app = write_app(
        tmp_path, config="learning-rate = 0.1\nlocal-epochs = 1\nnum-server-rounds = 3", train=train
    )
    space = {"client": {"learning-rate": {"choices": [0.1, 0.01]}}}
    result = Study.from_dict(tables(app, space=space)).tune()
    assert result.best_config.client["learning-rate"] == 0.01
    assert math.isfinite(result.best_score)


def test_numbers_without_a_shape_keep_it(tmp_path):
    """BatchNorm counts its batches in an array of no dimensions."""
    client = """
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg, context):
    count = msg.content["arrays"]["count"].numpy()
    assert count.shape == ()
    arrays = ArrayRecord({"count": Array(np.asarray(count + 1))})
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})}), reply_to=msg)
"""
    server = """
import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    FedAvg().start(grid, ArrayRecord({"count": Array(np.zeros((), np.int64))}), num_rounds=1)
"""
    app = write_app(tmp_path, client=client, server=server)
    found = trained(app, {}, rounds=2, learning_curve=False)
    assert found.shape == ()
    assert found == 2


def test_a_main_that_writes_a_module_name_from_itself_runs_more_than_once(tmp_path):
    """As two of Flower's baselines do with the name of their results."""
    main = """global RESULTS
    RESULTS = "results/" + RESULTS
    assert RESULTS == "results/file.json", RESULTS"""
    app = write_app(tmp_path, top='RESULTS = "file.json"', main=main)
    result = Study.from_dict(tables(app)).tune()
    assert result.status == "finished"
    assert len(module_of(app, "server_app").CALLS) > 1


def test_a_run_config_must_be_a_plain_dict_for_some_apps(tmp_path):
    """As for OmegaConf: a dict that is watched is none to it."""
    app = write_app(
        tmp_path, main="assert type(config) is dict", before="assert type(context.run_config) is dict"
    )
    assert trained(app, {"learning-rate": 1.0}, cohort=[0]).tolist() == [1.0, 1.0]


def test_clients_of_the_older_api_may_keep_a_part_of_the_model(tmp_path):
    """FedRep: the server begins with body and head, clients send the body."""
    strategy = OLDER_STRATEGY.replace("[np.zeros(2)]", "[np.zeros(2), np.zeros(3)]")
    app = older(tmp_path, strategy=strategy)
    found = trained(app, {"lr": 0.5}, rounds=2, metric="loss", cohort=[0])
    assert found.tolist() == pytest.approx([0.75, 0.75])
