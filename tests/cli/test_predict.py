"""From three hospitals' CSV files to a prediction on a new row, as a user would go."""

import csv
import json

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.study import Study

STUDY = """
[data]
files = {{ north = "north.csv", south = "south.csv", west = "west.csv" }}
label = "outcome"
drop = ["id"]
split = {{ kind = "inside", validation = 0.2, test = 0.2 }}
[model]
name = "{model}"
[space.client]
{space}
[method]
name = "{method}"
[budget]
rounds = {rounds}
total = {total}
cohort = 3
"""


def hospital(rng, rows, order):
    """Rows of one hospital: the ill are older, smokers more often, and some values are missing."""
    lines = []
    for number in range(rows):
        ill = rng.random() < 0.5
        age = f"{rng.normal(70 if ill else 40, 6):.1f}" if rng.random() > 0.1 else ""
        often = rng.random() < (0.8 if ill else 0.2)
        smokes = "NA" if rng.random() < 0.1 else "often" if often else "never"
        row = {"id": f"p{number}", "age": age, "smokes": smokes, "outcome": "ill" if ill else "well"}
        lines.append({name: row[name] for name in order})
    return lines


@pytest.fixture
def place(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    orders = {
        "north": ["id", "age", "smokes", "outcome"],
        "south": ["outcome", "smokes", "age", "id"],
        "west": ["smokes", "outcome", "id", "age"],
    }
    for name, order in orders.items():
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, order)
            writer.writeheader()
            writer.writerows(hospital(rng, 60, order))
    (tmp_path / "new.csv").write_text("smokes,age\noften,75\nnever,\nnever,30\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study(model, space, method="random", rounds=1, total=3):
    return STUDY.format(model=model, space=space, method=method, rounds=rounds, total=total)


@pytest.mark.parametrize(
    ("model", "space", "rounds", "total"),
    [
        ("hgb", "max_iter = { low = 5, high = 20 }", 1, 2),
        ("svm", "gamma = { low = 0.1, high = 1.0, log = true }", 1, 2),
        ("linear", "lr = { low = 0.3, high = 1.0, log = true }", 10, 20),
    ],
)
def test_from_three_files_to_a_prediction(place, capsys, model, space, rounds, total):
    (place / "study.toml").write_text(study(model, space, rounds=rounds, total=total))
    assert main(["tune", "study.toml", "--quiet", "--workers", "0"]) == 0
    capsys.readouterr()
    assert main(["predict", "runs/study", "new.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["predictions"]
    assert [row["outcome"] for row in told][::2] == ["ill", "well"]
    if model == "svm":  # it has no probabilities, and none are made up
        assert told[0] == {"outcome": "ill"}
    else:
        assert told[0]["p(ill)"] > 0.5 > told[2]["p(ill)"]
        assert told[1]["p(ill)"] + told[1]["p(well)"] == pytest.approx(1, abs=1e-5)
    assert main(["predict", "runs/study", "new.csv", "--output", "told.csv"]) == 0
    assert (place / "told.csv").read_text().splitlines()[1].split(",")[0] == "ill"

    facts = json.loads((place / "runs/study/result.json").read_text())
    assert facts["client_names"] == ["north", "south", "west"]


def test_probabilities_that_a_model_does_not_have_are_not_made_up(place):
    data = fh.from_csv(["north.csv", "south.csv", "west.csv"], label="outcome", drop=["id"])
    space = fh.Space(client={"gamma": fh.Float(0.1, 1.0)})
    with fh.LearnerFederation(data, "svm", workers=0) as svm:
        result = fh.tune(svm, space, "random", rounds=1, total=1, cohort=3)
    assert result.predict({"age": 75, "smokes": "often"}) == ["ill"]
    with pytest.raises(InputError, match="SVC has no probabilities, only classes: use predict"):
        result.predict_proba({"age": 75, "smokes": "often"})


def test_labels_of_a_run_are_no_formulas(place, capsys):
    formula = "=cmd|' /C calc'!A0"
    for file in ("north.csv", "south.csv", "west.csv"):
        (place / file).write_text((place / file).read_text().replace("ill", formula))
    (place / "study.toml").write_text(study("hgb", "max_iter = { low = 5, high = 20 }", total=1))
    assert main(["tune", "study.toml", "--quiet", "--workers", "0"]) == 0
    capsys.readouterr()
    assert main(["predict", "runs/study", "new.csv"]) == 0
    names, first, *_ = csv.reader(capsys.readouterr().out.splitlines())
    assert (names[:2], first[0]) == (["outcome", f"p({formula})"], f"'{formula}")
    assert float(first[1]) > 0.5  # numbers stay numbers


def test_the_result_says_what_became_of_missing_values_and_of_scales(place):
    data = fh.from_csv(["north.csv", "south.csv", "west.csv"], label="outcome", drop=["id"])
    assert np.isnan(data.x).any()
    with fh.LearnerFederation(data, "hgb", workers=0) as trees:
        about = trees.describe()
        assert "left to the learner" in about["missing_values"]
        assert "scaling" not in about
    with fh.LearnerFederation(data, "svm", workers=0) as svm:
        about = svm.describe()
        assert "mean over all parties" in about["missing_values"]
        assert about["scaling"].startswith("minmax")
        assert about["columns"] == (
            "2 columns, 1 of text (their texts are those of all parties), 3 features; label 'outcome'"
        )
        # The same row is the same to the learner wherever it lies.
        seen = svm.preparation(data.encoding.encode({"age": 50, "smokes": "often"}))
        low, high = np.nanmin(data.x[data.train.indices, 0]), np.nanmax(data.x[data.train.indices, 0])
        assert seen[0].tolist() == pytest.approx([(50 - low) / (high - low), 0, 1], abs=1e-6)


def test_a_client_that_fails_is_told_by_its_name(place):
    data = fh.from_csv(["north.csv", "south.csv", "west.csv"], label="outcome", drop=["id"])

    def train(model, own, hyperparameters, generator):
        if own.client == 1:
            raise ValueError("no power")

    federation = fh.simulate("linear", data, train=train, workers=0)
    space = fh.Space(client={"lr": fh.Float(0.1, 1.0)})
    with pytest.warns(UserWarning, match="client 'south' failed in round 1 of trial 0: .*no power"):
        result = fh.tune(federation, space, "random", rounds=1, total=2, cohort=3)
    assert {row["client"] for row in result.failures} == {"south"}


def test_what_predict_needs(place, capsys):
    (place / "study.toml").write_text(study("hgb", "max_iter = { low = 5, high = 20 }"))
    assert main(["predict", "runs/NOPE", "new.csv"]) == 2
    assert "runs/NOPE is not a run: there is no such directory" in capsys.readouterr().err
    assert main(["tune", "study.toml", "--quiet", "--workers", "0", "--timeout", "1e-6"]) == 0
    assert main(["predict", "runs/study", "new.csv"]) == 2
    assert "has no result yet; finish it with: fedhpo resume runs/study" in capsys.readouterr().err
    digits = fh.simulate("mlp", fh.load("digits", clients=4), workers=0)
    space = fh.Space(client={"lr": fh.Float(0.1, 1.0)})
    result = fh.tune(digits, space, "random", rounds=1, total=2, cohort=2)
    with pytest.raises(InputError, match="predict needs data with columns"):
        result.predict({"age": 3})


def test_a_study_without_name_and_files_says_what_is_missing():
    with pytest.raises(InputError, match=r"data.name is missing: .*or data.files"):
        Study.from_dict(
            {
                "data": {},
                "model": {"name": "mlp"},
                "space": {"client": {"lr": {"low": 0.1, "high": 1.0}}},
                "budget": {"rounds": 1},
            }
        )
