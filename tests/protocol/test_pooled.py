"""A metric of all clients' rows together, beside scikit-learn's."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import fedhpo as fh
from fedhpo import InputError


def clients(count=6):
    """12% of rows of class 1, at some clients hardly any."""
    rng = np.random.default_rng(1)
    made = []
    for number in range(count):
        y = (rng.random(60) < 0.04 * number).astype(np.int64)
        y[0] = 1
        x = rng.normal(size=(60, 3)).astype(np.float32) + number
        x[:, 0] += y
        made.append({"train": (x[:40], y[:40]), "validation": (x[40:], y[40:]), "test": (x[:20], y[:20])})
    return made


SPACE = fh.Space(client={"lr": fh.Float(0.01, 0.1)})


def test_auroc_of_all_rows_is_scikit_learns():
    data = fh.from_clients(clients(), classes=2)
    with fh.simulate("linear", data, workers=0) as federation:
        result = fh.tune(
            federation,
            SPACE,
            "random",
            rounds=2,
            total=4,
            cohort=6,
            objective=fh.Objective("auroc", pooled=True),
        )
    x = np.concatenate([one["validation"][0] for one in clients()])
    y = np.concatenate([one["validation"][1] for one in clients()])
    import torch

    with torch.no_grad():
        told = result.model(torch.from_numpy(x)).double().softmax(dim=1)[:, 1].numpy()
    assert result.best_score == pytest.approx(roc_auc_score(y, told))
    assert result.facts["objective"]["metric_is"].startswith("the auroc of all clients' rows together")
    assert result.facts["best"]["validation"]["standard_error"] == 0  # all clients were asked


def test_learners_pool_too():
    data = fh.from_clients(clients(), classes=2)
    federation = fh.LearnerFederation(data, "hgb", workers=0)
    objective = fh.Objective("auroc", pooled=True)
    space = fh.Space(client={"max_iter": fh.Int(2, 5)})
    result = fh.tune(federation, space, "random", rounds=1, total=2, cohort=6, objective=objective)
    x = np.concatenate([one["validation"][0] for one in clients()])
    y = np.concatenate([one["validation"][1] for one in clients()])
    assert result.best_score == pytest.approx(roc_auc_score(y, result.model.predict_proba(x)[:, 1]))


def test_of_some_clients_the_error_is_not_known():
    data = fh.from_clients(clients(), classes=2)
    with fh.simulate("linear", data, workers=0) as federation:
        result = fh.tune(
            federation,
            SPACE,
            "random",
            rounds=1,
            total=2,
            cohort=6,
            objective=fh.Objective("auroc", pooled=True),
            evaluation=fh.Evaluator(clients=3),
        )
    assert result.facts["best"]["validation"]["standard_error"] is None
    assert result.gain is None or math.isnan(result.gain["standard_error"] or math.nan)


@pytest.mark.parametrize(
    "settings", [{"metric": "accuracy", "pooled": True}, {"metric": "auroc", "over": "tail", "pooled": True}]
)
def test_what_cannot_be_pooled_is_refused(settings):
    with pytest.raises(InputError, match="pooled is for means over clients"):
        fh.Objective(**settings)
