"""A run in other tools' forms, read back with their own code."""

import csv

import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.testing import ToyFederation
from fedhpo.tuning.export import export

SPACE = fh.Space(
    client={"lr": fh.Float(0.05, 1.0, log=True), "batch_size": fh.Choice([8, 16])},
    server={"momentum": fh.Float(0, 0.5)},
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "digits"
    with fh.simulate("linear", fh.load("digits", clients=6), server="fedavgm", workers=0) as federation:
        fh.tune(federation, SPACE, fh.SHA(trials=4, rate=2), rounds=3, total=12, cohort=3, run=place)
    return place


def test_csv_holds_the_trials(run, tmp_path, capsys):
    assert main(["export", str(run), "--to", "csv", str(tmp_path / "trials.csv")]) == 0
    assert "4 trials written" in capsys.readouterr().out
    with open(tmp_path / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, trial in zip(rows, fh.load_run(run).trials, strict=True):
        assert float(row["client.lr"]) == trial["client.lr"]
        assert float(row["score"]) == trial["score"]


def test_csv_holds_no_formulas(tmp_path):
    choices = ["=1+2", "@sum", "+x", "-x", "\tx", "\rx", "-1e5", "plain"]
    space = fh.Space(client={"lr": 0.1, "rule": fh.Choice(choices)})
    result = fh.tune(ToyFederation(), space, "grid", rounds=1, total=8, cohort=3)
    assert export(result, "csv", str(tmp_path / "trials.csv")) == 8
    with open(tmp_path / "trials.csv", newline="") as file:
        found = {row["client.rule"] for row in csv.DictReader(file)}
    assert found == {*(f"'{text}" for text in choices[:6]), "-1e5", "plain"}


def test_optuna_holds_trials_with_their_curves(run, tmp_path):
    optuna = pytest.importorskip("optuna")
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    result = fh.load_run(run)
    assert export(result, "optuna", storage, "digits") == 4
    study = optuna.load_study(study_name="digits", storage=storage)
    assert study.best_value == max(row["score"] for row in result.trials if row["status"] != "eliminated")
    for trial, row in zip(study.trials, result.trials, strict=True):
        assert trial.params["client.lr"] == row["client.lr"]
        assert trial.state.name == ("PRUNED" if row["status"] == "eliminated" else "COMPLETE")
        assert trial.intermediate_values[row["rounds"]] == pytest.approx(row["score"])
    with pytest.raises(InputError, match="holds a study 'digits' already"):
        export(result, "optuna", storage, "digits")


def test_parquet_holds_the_trials(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export(fh.load_run(run), "parquet", str(tmp_path / "trials.parquet"))
    rows = parquet.read_table(tmp_path / "trials.parquet").to_pylist()
    assert [row["score"] for row in rows] == [row["score"] for row in fh.load_run(run).trials]


def test_what_cannot_be_exported_says_why(run, tmp_path):
    with pytest.raises(InputError, match="unknown export 'excel'; known: csv, optuna, parquet"):
        export(fh.load_run(run), "excel", "x")
    with pytest.raises(InputError, match="must be a file in a directory that is there"):
        export(fh.load_run(run), "csv", str(tmp_path / "none" / "x.csv"))
