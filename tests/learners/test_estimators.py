"""Estimators of the user's own: a class, an estimator, a pipeline; and those of other packages by name."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import fedhpo as fh
from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.learners import HGB, LEARNERS, SVM, Learner, learner_of
from fedhpo.learners.fingerprint import estimator_of
from fedhpo.space.config import Config
from fedhpo.testing.parties import party_data

PIPELINE = make_pipeline(StandardScaler(), LogisticRegression(max_iter=50))


def test_an_estimator_is_cloned_and_its_parameters_set():
    learner = learner_of(PIPELINE)
    built = learner.build(Config(client={"logisticregression__C": 3.0}), seed=7)
    assert isinstance(built, Pipeline)
    assert built is not PIPELINE
    assert built.get_params()["logisticregression__C"] == 3.0
    assert built.get_params()["logisticregression__max_iter"] == 50
    assert built.get_params()["logisticregression__random_state"] == 7
    assert PIPELINE.get_params()["logisticregression__C"] == 1.0
    with pytest.raises(InputError, match="did you mean 'logisticregression__C'"):
        learner.check(["logisticregression__c"])


def test_a_random_state_of_the_users_own_stays():
    own = learner_of(LogisticRegression(random_state=3))
    assert own.build(Config(), seed=7).random_state == 3
    assert learner_of(LogisticRegression).build(Config(), seed=7).random_state == 7


def test_what_is_no_estimator_is_refused():
    with pytest.raises(InputError, match="must have fit, predict, get_params and set_params, lacks fit"):
        learner_of(object())


@pytest.mark.parametrize("workers", [0, 1])
def test_a_pipeline_is_tuned(workers):
    space = fh.Space(client={"logisticregression__C": fh.Float(1e-3, 1e2, log=True)})
    with fh.LearnerFederation(party_data(parties=3, count=60), PIPELINE, workers=workers) as federation:
        result = fh.tune(federation, space, "random", rounds=1, total=4, cohort=3)
    assert result.best_score > 0.6
    assert isinstance(result.model, Pipeline)
    chosen = result.best_config.client["logisticregression__C"]
    assert result.model.get_params()["logisticregression__C"] == chosen


def test_an_estimator_with_other_settings_is_another():
    first, second = (estimator_of(LogisticRegression(C=c)) for c in (1.0, 2.0))
    assert first != second
    assert first == estimator_of(LogisticRegression(C=1.0))


def test_who_takes_missing_values():
    assert HGB.takes_missing
    assert LEARNERS["xgboost"].takes_missing
    assert not SVM.takes_missing
    assert not LEARNERS["cash"].takes_missing
    assert not learner_of(PIPELINE).takes_missing


def test_xgboost_and_hgb_learn_from_missing_values():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = np.where(y == 1, np.nan, rng.normal(size=200))  # a value is missing where the label is 1
    data = fh.from_frames({"a": {"x": x, "y": y}, "b": {"x": x, "y": y}}, label="y")
    space = fh.Space(client={"max_iter": fh.Int(5, 20)})
    for name in ("hgb", "xgboost"):
        with fh.LearnerFederation(data, name, workers=0) as federation:
            result = fh.tune(federation, space, "random", rounds=1, total=2, cohort=2)
        assert result.best_score == 1.0
        assert result.predict({"x": None}) == [1]


def test_regression_needs_no_special_word():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    rows = {"x": x[:, 0], "z": x[:, 1], "y": 3 * x[:, 0] - x[:, 1] + 0.01 * rng.normal(size=200)}
    data = fh.from_frames({"a": rows, "b": rows}, label="y")
    space = fh.Space(client={"alpha": fh.Float(1e-3, 1.0, log=True)})
    with fh.LearnerFederation(data, Ridge, workers=0) as federation:
        result = fh.tune(federation, space, "random", rounds=1, total=2, cohort=2)
    assert federation.scoring == "r2"
    assert result.facts["objective"]["loss_is"] == "1 - r2"
    assert result.best_score < 0.01
    assert result.predict({"x": 1.0, "z": 1.0})[0] == pytest.approx(2.0, abs=0.1)
    with fh.LearnerFederation(data, "hgb", workers=0) as trees:  # its twin for numbers
        trees.start(0, {}, 0)
        trees.round([fh.Work(trial=0, cohort=[0, 1], client={"max_iter": 20})])
        assert type(trees.model(0)).__name__ == "HistGradientBoostingRegressor"


@pytest.mark.parametrize("name", ["lightgbm", "catboost"])
def test_boosted_trees_of_other_packages(name):
    pytest.importorskip(name)
    learner = LEARNERS[name]
    with fh.LearnerFederation(party_data(parties=3, count=60), name, workers=0) as federation:
        result = fh.tune(federation, learner.space, "random", rounds=1, total=2, cohort=3)
    assert result.best_score > 0.6
    assert learner.takes_missing


def test_a_missing_package_names_the_extra():
    learner = Learner("absent", "no_such_package:Model", extra="absent")
    with pytest.raises(MissingExtraError, match=r"\[absent\]"):
        learner.load()
