"""A run's result and model come back from its directory alone; and how results show themselves."""

import io
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import fedhpo as fh
from fedhpo.core.errors import InputError

SPACE = fh.Space(client={"lr": fh.Float(0.05, 1.0, log=True)})


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, x):
        return self.layers(x)


@pytest.fixture(scope="module")
def data():
    return fh.load("digits", clients=6)


def tuned(model, data, run, space=SPACE, **more):
    with fh.simulate(model, data, workers=0) as federation:
        return fh.tune(federation, space, "random", rounds=2, total=4, cohort=3, run=run, **more)


def test_result_and_model_come_back_without_the_federation(tmp_path, data):
    before = tuned("linear", data, tmp_path / "run")
    after = fh.load_run(tmp_path / "run")
    assert after.best_config == before.best_config
    assert [dict(row) for row in after.trials] == [dict(row) for row in before.trials]
    assert len(after.history) == len(before.history)
    for name, weights in before.model.state_dict().items():
        assert torch.equal(weights, after.model.state_dict()[name])
    assert load_file(tmp_path / "run" / "model.safetensors").keys() == before.model.state_dict().keys()


def test_a_model_of_ones_own_needs_what_builds_it(tmp_path, data):
    space = fh.Space(client=SPACE.scope("client"), model={"width": fh.Choice([3, 5])})
    before = tuned(Net, data, tmp_path / "run", space)
    assert fh.load_run(tmp_path / "run").model is None
    after = fh.load_run(tmp_path / "run", model=Net).model
    assert after.layers[1].out_features == before.best_config.model["width"]
    for name, weights in before.model.state_dict().items():
        assert torch.equal(weights, after.state_dict()[name])
    with pytest.raises(InputError, match="its weights do not fit the model"):
        fh.load_run(tmp_path / "run", model=nn.Linear(2, 2))


def test_boosted_trees_and_their_columns_come_back(tmp_path):
    rows = {
        "x": [float(n) for n in range(40)],
        "colour": ["red", "blue"] * 20,
        "y": ["low"] * 20 + ["high"] * 20,
    }
    data = fh.from_frames({"a": rows, "b": rows}, label="y")
    space = fh.Space(client={"max_iter": fh.Int(3, 6), "min_samples_leaf": 2})
    with fh.LearnerFederation(data, "xgboost", workers=0) as federation:
        before = fh.tune(federation, space, "random", rounds=1, total=2, cohort=2, run=tmp_path / "run")
    after = fh.load_run(tmp_path / "run")
    new = [{"x": 2, "colour": "red"}, {"x": 38, "colour": "blue"}, {"x": None, "colour": None}]
    assert after.predict(new)[:2] == ["low", "high"]
    np.testing.assert_array_equal(after.predict_proba(new), before.predict_proba(new))


def test_a_run_without_a_result_says_how_to_finish_it(tmp_path, data):
    tuned("linear", data, tmp_path / "run", callbacks=[lambda event: True])
    with pytest.raises(InputError, match=r"has no result yet; finish it with: fedhpo resume"):
        fh.load_run(tmp_path / "run")


def test_results_show_themselves(tmp_path, data):
    with fh.simulate("linear", data, workers=0) as federation:
        result = fh.tune(federation, SPACE, "random", rounds=1, total=2, cohort=3)
        assert repr(federation) == "<SimulatedFederation: digits, 6 clients train, 6 validate>"
        assert "<th" in federation._repr_html_()
    assert repr(result).startswith("<Result: finished: ")
    page = result._repr_html_()
    assert "validation accuracy" in page
    assert "client.lr" in page
    assert result.trials._repr_html_().count("<tr>") == 1 + len(result.trials)
    assert "client.lr" in SPACE._repr_html_()
    assert str(fh.Space(client={"lr": fh.Float(0.1, 1.0), "epochs": 2})) == (
        "client.lr: Float(0.1, 1.0)\nclient.epochs: 2, fixed"
    )


def test_progress_tells_how_it_goes(data, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    tuned("linear", data, None, progress=True)
    said = sys.stderr.getvalue()
    assert "round 4 of 4" in said
    assert "round 0 of" not in said


def test_trials_as_a_frame(data):
    pandas = pytest.importorskip("pandas")
    frame = tuned("linear", data, None).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert {"trial", "score", "client.lr"} <= set(frame.columns)
