"""`result.export`, and what `load_run` says of models."""

import csv
import io
import json
import tomllib
import warnings

import pytest
from torch import nn

import fedhpo as fh
from fedhpo.testing import ToyFederation


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 10))


@pytest.fixture(scope="module")
def result():
    space = fh.Space(
        client={"lr": fh.Float(0.01, 1.0, log=True), "batch_size": 8},
        server={"lr": fh.Float(0.5, 1.0)},
    )
    return fh.tune(ToyFederation(clients=8), space, fh.RandomSearch(trials=3), rounds=4, cohort=4)


def test_csv_and_parquet_hold_a_row_for_each_trial(result, tmp_path):
    text = result.export("csv", tmp_path / "trials.csv")
    assert (tmp_path / "trials.csv").read_text(encoding="utf-8") == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["client.lr"]) for row in rows] == [trial["client.lr"] for trial in result.trials]
    parquet = pytest.importorskip("pyarrow.parquet")
    made = parquet.read_table(io.BytesIO(result.export("parquet"))).to_pylist()
    assert [row["score"] for row in made] == [trial.score for trial in result.trials]


def test_optuna_gives_a_study(result, tmp_path):
    optuna = pytest.importorskip("optuna")
    study = result.export("optuna")
    assert study.best_value == result.facts.best.validation.value
    assert study.best_params["client.lr"] == result.tuned_config.client["lr"]
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    result.export("optuna", storage)
    [name] = optuna.get_all_study_names(storage)
    assert len(optuna.load_study(study_name=name, storage=storage).trials) == 3


def test_flower_and_nvflare_get_the_best_config(result, tmp_path):
    config = tomllib.loads(result.export("flower", tmp_path / "part.toml"))["tool"]["flwr"]["app"]["config"]
    assert config["client"]["lr"] == result.best_config.client["lr"]
    found = json.loads(result.export("nvflare"))
    assert found["num_rounds"] == 4
    assert f"--lr={result.best_config.client['lr']}" in found["train_args"].split()
    assert found["server"] == {"lr": result.best_config.server["lr"]}
    assert json.loads(result.export("json")) == result.best_config.to_dict()


def test_what_is_not_known_is_refused(result, tmp_path):
    with pytest.raises(fh.InputError, match=r"unknown export 'optna' .did you mean 'optuna'"):
        result.export("optna")
    with pytest.raises(fh.InputError, match="must be a file in a directory that is there"):
        result.export("csv", tmp_path / "no" / "trials.csv")


def test_load_run_says_why_there_is_no_model(tmp_path):
    data = fh.load("digits", clients=4)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    with fh.simulate(Net, data, workers=0) as federation:
        own = fh.tune(
            federation, space, fh.RandomSearch(trials=1), rounds=1, total=1, cohort=2, run=tmp_path / "own"
        )
    with pytest.warns(UserWarning, match=r"load_run\('.*own', model=Net\)"):
        assert fh.load_run(tmp_path / "own").model is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = fh.load_run(tmp_path / "own", model=Net).model
    assert (loaded[0].weight == own.model[0].weight).all()
    fh.tune(
        ToyFederation(), space, fh.RandomSearch(trials=1), rounds=1, total=1, cohort=2, run=tmp_path / "toy"
    )
    with pytest.warns(UserWarning, match="keeps no model that can be read back safely"):
        fh.load_run(tmp_path / "toy")
