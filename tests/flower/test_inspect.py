"""`fedhpo flower inspect`: what is tunable in an app, and a first study that runs."""

import json
import tomllib

import pytest
from trap_apps import OLDER_EVALUATE, OLDER_STRATEGY, tables, write_app

from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.federations.apps.app_file import read_app
from fedhpo.federations.apps.inspection import inspect_app
from fedhpo.space import Float, Int, Space
from fedhpo.study import Study

TASK = """
import numpy as np


class Adam:
    def __init__(self, parameters, lr=0.1):
        self.lr = lr


def target(partition):
    return 1.0


def train(w, epochs=2):
    step = Adam(None, 0.05)
    for _ in range(epochs):
        w = w - step.lr * (w - 1)
    return w


def loss(w, partition):
    return float(np.mean((w - 1) ** 2))


Step = fit = None
"""


def app_with_literals(tmp_path):
    client_train = (
        "from PACKAGE.task import train as run\n    from PACKAGE.task import train\n    w = train(w)"
    )
    return write_app(
        tmp_path,
        task=TASK,
        train=client_train,
        config="num-server-rounds = 3\nseed = 1",
        strategy="FedAvgM()",
    )


def test_everything_tunable_is_listed_with_its_value(tmp_path):
    found = inspect_app(read_app(write_app(tmp_path, start='train_config=ConfigRecord({"mu": 0.5}),')))
    listed = {(one.scope, one.name): one.value for one in found.tunables}
    assert listed["client", "learning-rate"] == 0.1
    assert listed["client", "local-epochs"] == 1
    assert listed["client", "mu"] == 0.5
    assert ("client", "num-server-rounds") not in listed
    assert found.metrics == {"clients": ["eval_loss"], "training": ["train_loss"]}
    found = inspect_app(read_app(app_with_literals(tmp_path)))
    listed = {(one.scope, one.name): (one.value, one.kind) for one in found.tunables}
    assert listed["client", "task:Adam.lr"] == (0.05, "optimiser")
    assert listed["client", "task:train.epochs"] == (2, "training function")
    assert listed["server", "server_momentum"] == (0.0, "strategy FedAvgM")
    assert ("server", "fraction_train") not in listed
    assert "seed" not in {name for _, name in listed}


def test_the_older_api_is_inspected_too(tmp_path):
    app = write_app(tmp_path, older=True, evaluate=OLDER_EVALUATE, strategy=OLDER_STRATEGY)
    found = inspect_app(read_app(app))
    assert found.metrics == {
        "clients": ["loss", "accuracy"],
        "training": ["train_loss", "note"],
        "server": ["loss", "cen_accuracy"],
    }
    assert ("local-epochs", 1) in {(one.name, one.value) for one in found.tunables}


def test_the_first_study_can_be_tuned(tmp_path, capsys):
    app, study = app_with_literals(tmp_path), tmp_path / "study.toml"
    assert main(["flower", "inspect", str(app), str(study)]) == 0
    assert "task:Adam.lr" in capsys.readouterr().out
    given = tomllib.loads(study.read_text())
    assert given["objective"] == {"metric": "eval_loss", "direction": "minimize"}
    assert given["space"]["client"]["task:Adam.lr"] == {"low": 0.0005, "high": 0.5, "log": True}
    given |= {"method": {"name": "random", "trials": 2}, "budget": {"rounds": 1, "total": 2, "cohort": 2}}
    result = Study.from_dict(given).tune()
    first = result.facts["trials"][0]["config"]["client"]
    assert first["task:Adam.lr"] == 0.05  # the app's own
    assert main(["flower", "inspect", str(app), str(study)]) == 2  # it is there already
    assert main(["flower", "inspect", str(app), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"scope", "name", "value", "where", "kind", "range"} == set(told["tunables"][0])


def test_a_study_is_needed_to_tune(tmp_path, capsys):
    assert main(["flower", "tune", str(write_app(tmp_path))]) == 2
    assert "fedhpo flower inspect" in capsys.readouterr().err


def test_a_value_outside_the_range_is_trained_as_it_is_as_trial_0(tmp_path):
    app = write_app(tmp_path)
    space = {"client": {"learning-rate": {"low": 0.2, "high": 1.0}, "local-epochs": {"low": 2, "high": 4}}}
    study = Study.from_dict(tables(app, space=space))
    assert [line for line in study.said() if "outside" in line] == [
        "space.client.learning-rate: the app's own value, 0.1, lies outside the range; trial 0 is trained "
        "with it",
        "space.client.local-epochs: the app's own value, 1, lies outside the range; trial 0 is trained "
        "with it",
    ]
    for method in ("random", "tpe", "gp"):
        changes = {"method": {"name": method, "trials": 4}, "budget": {"rounds": 1, "total": 4, "cohort": 2}}
        result = Study.from_dict(tables(app, space=space, **changes)).tune()
        trials = [one["config"]["client"] for one in result.facts["trials"]]
        assert trials[0] == {"learning-rate": 0.1, "local-epochs": 1}
        assert all(one["learning-rate"] >= 0.2 and one["local-epochs"] >= 2 for one in trials[1:])


def test_a_value_outside_the_range_in_a_space():
    space = Space(client={"lr": Float(0.1, 1.0, log=True, own=0.01), "epochs": Int(2, 8, own=20)})
    assert dict(space.default().client) == {"lr": 0.01, "epochs": 20}
    assert Space.from_dict(space.to_dict()) == space
    assert space.contains(space.default())
    assert space.to_unit(space.default()).tolist() == [pytest.approx(6.5 / 7), 0.0]
    for wrong in ({"own": 0.5}, {"own": 0.01, "default": 0.2}, {"own": "much"}):
        with pytest.raises(InputError, match="own"):
            Float(0.1, 1.0, **wrong)
