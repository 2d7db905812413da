"""Three messy CSV files to predictions in another directory, where neither study nor training files are."""

import csv
import json
import shutil

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError

STEPS = """
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

plain = Pipeline([("scale", StandardScaler()), ("model", LogisticRegression())])


class Clip(TransformerMixin, BaseEstimator):
    def fit(self, x, y=None):
        self.most_ = np.abs(x).max(axis=0)
        return self

    def transform(self, x):
        return np.clip(x, -self.most_, self.most_)


own = Pipeline([("clip", Clip()), ("model", LogisticRegression())])
"""
NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, width=8):
        super().__init__(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
"""
SPACES = {
    "hgb": "max_iter = { low = 5, high = 20 }\nmin_samples_leaf = 5",
    "svm": "gamma = { low = 0.1, high = 1.0, log = true }",
    "mlp_sklearn": "learning_rate_init = { low = 0.003, high = 0.03, log = true }",
    "xgboost": "max_iter = { low = 5, high = 20 }\nmin_samples_leaf = 5",
    "steps:plain": "model__C = { low = 0.1, high = 10.0, log = true }",
    "mlp": "lr = { low = 0.1, high = 1.0, log = true }",
}


def visits(rng, rows, order, extra):
    for number in range(rows):
        ill = rng.random() < 0.5
        row = {
            "patient": f"p{number}",
            "visit_date": f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}",
            "age": f"{rng.normal(70 if ill else 40, 6):.1f}" if rng.random() > 0.1 else "",
            "smokes": "NA" if rng.random() < 0.1 else "often" if rng.random() < 0.2 + 0.6 * ill else "never",
            "note": f"seen by {rng.integers(10**6)} after {rng.integers(10**6)}",
            "outcome": "ill" if ill else "well",
            "ward": "W" + str(rng.integers(3)),
        }
        yield {name: row[name] for name in order + extra}


@pytest.fixture
def place(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    (tmp_path / "train").mkdir()
    (tmp_path / "production").mkdir()
    names = ["patient", "visit_date", "age", "smokes", "note", "outcome"]
    for party, extra in (("north", []), ("south", ["ward"]), ("west", [])):
        order = list(rng.permutation(names)) + extra
        with open(tmp_path / "train" / f"{party}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, order)
            writer.writeheader()
            writer.writerows(visits(rng, 60, names, extra))
    (tmp_path / "production" / "new.csv").write_text("smokes,age\noften,75\nnever,\nnever,30\n")
    monkeypatch.chdir(tmp_path / "train")
    return tmp_path


def tuned(place, model, space, rounds=1, total=2):
    """`fedhpo new csv`, another model in the study, `fedhpo tune`, and the run moved to another directory."""
    assert main(["new", "csv", "study", "north.csv", "south.csv", "west.csv"]) == 0
    study = place / "train" / "study" / "study.toml"
    text = study.read_text()
    named = f'"estimator"\npath = "{model}"' if model.startswith("steps") else f'"{model}"'
    text = text[: text.index("[model]")] + (
        f'[model]\nname = {named}\n[space.client]\n{space}\n[method]\nname = "random"\n'
        f"[budget]\nrounds = {rounds}\ntotal = {total}\ncohort = 3\n"
    )
    study.write_text(text)
    (study.parent / "steps.py").write_text(STEPS)
    (study.parent / "net.py").write_text(NET)


def away(place, monkeypatch):
    run = place / "production" / "model"
    shutil.move(place / "train" / "study" / "runs" / "study", run)
    shutil.rmtree(place / "train" / "study")
    for party in ("north", "south", "west"):
        (place / "train" / f"{party}.csv").unlink()
    monkeypatch.chdir(place / "production")
    return run


@pytest.mark.parametrize("model", SPACES)
def test_a_model_is_used_without_the_training_files(place, monkeypatch, capsys, model):
    rounds, total = (10, 20) if model == "mlp" else (1, 2)
    tuned(place, model, SPACES[model], rounds, total)
    monkeypatch.chdir(place / "train" / "study")
    assert main(["tune", "study.toml", "--quiet", "--workers", "0"]) == 0
    assert main(["predict", "runs/study", str(place / "production" / "new.csv"), "--json"]) == 0
    before = json.loads(capsys.readouterr().out.splitlines()[-1])["predictions"]
    run = away(place, monkeypatch)
    assert main(["predict", "model", "new.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert found == before
    assert [row["outcome"] for row in found][::2] == ["ill", "well"]
    assert ("p(ill)" in found[0]) == (model != "svm")
    card = (run / "MODEL_CARD.md").read_text()
    assert all(f"\n| {party} | " in card for party in ("north", "south", "west"))
    assert "| label | outcome |" in card
    assert "No differential privacy" in card
    assert not any(path.suffix in (".pkl", ".pickle", ".joblib") for path in run.rglob("*"))


def test_types_of_ones_own_must_be_trusted(place, monkeypatch, capsys):
    tuned(place, "steps:own", SPACES["steps:plain"])
    monkeypatch.chdir(place / "train" / "study")
    assert main(["tune", "study.toml", "--quiet", "--workers", "0"]) == 0
    shutil.copy("steps.py", place / "production")
    run = away(place, monkeypatch)
    capsys.readouterr()
    assert main(["predict", "model", "new.csv"]) == 2
    assert "holds types that are not scikit-learn's: steps.Clip" in capsys.readouterr().err
    assert main(["predict", "model", "new.csv", "--trust", "steps.Clip"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("ill,")
    assert fh.load_run(run, trust=["steps.Clip"]).predict({"age": 75, "smokes": "often"}) == ["ill"]


def test_a_torch_model_of_ones_own_is_named(place, monkeypatch, capsys):
    tuned(place, "net:Net", SPACES["mlp"], 5, 10)
    text = (place / "train/study/study.toml").read_text()
    assert "drop" in text
    monkeypatch.chdir(place / "train" / "study")
    (place / "train/study/net.py").write_text(NET.replace("Linear(4,", f"Linear({features(place)},"))
    assert main(["tune", "study.toml", "--quiet", "--workers", "0"]) == 0
    shutil.copy("net.py", place / "production")
    away(place, monkeypatch)
    capsys.readouterr()
    assert main(["predict", "model", "new.csv"]) == 2
    assert "--model module:Name" in capsys.readouterr().err
    assert main(["predict", "model", "new.csv", "--model", "net:Net"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("ill,")


def features(place):
    import tomllib

    found = tomllib.loads((place / "train/study/study.toml").read_text())["data"]
    data = fh.from_csv(found["files"], found["label"], drop=found["drop"])
    return len(data.encoding.features)


def test_a_changed_file_is_refused(place, monkeypatch):
    tuned(place, "hgb", SPACES["hgb"])
    monkeypatch.chdir(place / "train" / "study")
    assert main(["tune", "study.toml", "--quiet", "--workers", "0"]) == 0
    file = away(place, monkeypatch) / "model.skops"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(InputError, match=r"model\.skops is not the file that model\.json was written with"):
        fh.load_run("model")
