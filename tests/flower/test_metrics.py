"""An imbalanced federation tuned for AUROC: the same numbers in the simulation, on Ray and over Flower."""

import numpy as np
import pytest
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.flower import InProcessGrid, client
from fedhpo.flower.server_app import federation_of
from fedhpo.study import Study


def twelve_percent():
    """Six clients of two classes, 12% of rows of the second."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(6):
        y = (rng.random(100) < 0.12).astype(np.int64)
        x = rng.normal(size=(100, 2)).astype(np.float32)
        x[:, 0] += 1.5 * y
        made.append((x, y))
    return fh.from_clients(made, validation=0.3, test=0.2)


STUDY = Study.from_dict(
    {
        "data": {"name": "test_metrics:twelve_percent"},
        "model": {"name": "linear"},
        "server": {"aggregation": "mean"},
        "space": {"client": {"lr": {"low": 1e-3, "high": 1.0, "log": True}}},
        "method": {"name": "random"},
        "objective": {"metric": "auroc", "also": ["f1", "roc_auc"]},
        "budget": {"rounds": 3, "total": 9, "cohort": 3},
    }
)


def over_flower(study):
    return federation_of(InProcessGrid(client(ClientApp(), study=study), 6), study, repeatable=True)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setattr(Study, "load_data", lambda self: twelve_percent())


def test_auroc_and_f1_are_the_same_over_flower():
    ours = STUDY.tune(federation=fh.simulate("linear", twelve_percent(), workers=0, stacking=False))
    theirs = STUDY.tune(federation=over_flower(STUDY))
    assert ours.best_score > 0.6
    assert set(ours.metrics) == {"accuracy", "loss", "auroc", "f1", "roc_auc"}
    assert ours.metrics["auroc"] == pytest.approx(ours.metrics["roc_auc"])
    assert ours.facts["best"] == theirs.facts["best"]
    assert [dict(row) for row in ours.trials] == [dict(row) for row in theirs.trials]


def test_ray_gives_the_same_numbers(ray_cluster):
    ours = STUDY.tune(federation=fh.simulate("linear", twelve_percent(), workers=0, stacking=False))
    with fh.simulate("linear", twelve_percent(), ray=ray_cluster.address, stacking=False) as federation:
        theirs = STUDY.tune(federation=federation)
    assert ours.facts["best"] == theirs.facts["best"]
    assert [dict(row) for row in ours.trials] == [dict(row) for row in theirs.trials]


def test_pooled_metrics_are_refused_over_flower():
    pooled = Study.from_dict({**STUDY.given, "objective": {"metric": "auroc", "pooled": True}})
    with pytest.raises(InputError, match="which only a simulation has"):
        pooled.tune(federation=over_flower(pooled))


def test_no_function_travels_to_clients():
    own = fh.Metric("own", lambda outputs, targets: 0.0, maximise=True)
    with pytest.raises(InputError, match="metric 'own': functions are not sent to clients"):
        over_flower(STUDY).measure([own])
