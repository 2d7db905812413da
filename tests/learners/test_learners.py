"""Learners: the paper's spaces, scaling inside a fold, losses, and the mapping to XGBoost."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

from fedhpo.core.errors import InputError
from fedhpo.learners import CASH, HGB, MLP, SVM, Algorithms, Learner, cross_validated_loss, learner_of
from fedhpo.learners.boosted import BoostedTrees
from fedhpo.learners.scoring import fitted, fold_rows, number_of_folds
from fedhpo.space import Float, Space
from fedhpo.space.config import Config

X, Y = load_breast_cancer(return_X_y=True)
X, Y = X[:200].astype(np.float32), Y[:200]


def test_spaces_are_those_of_the_appendix():
    bounds = {
        learner.name: {name: (h.low, h.high, h.log) for name, h in learner.space.scope("client").items()}
        for learner in (HGB, SVM, MLP)
    }
    assert bounds == {
        "hgb": {
            "max_iter": (10, 200, False),
            "learning_rate": (1e-3, 1.0, True),
            "min_samples_leaf": (1, 40, False),
            "l2_regularization": (1e-4, 1.0, True),
        },
        "svm": {"C": (0.01, 1000.0, True), "gamma": (1e-5, 10.0, True), "tol": (1e-5, 1e-1, True)},
        "mlp_sklearn": {
            "hidden_layer_sizes": (50, 200, False),
            "alpha": (1e-5, 10.0, True),
            "learning_rate_init": (1e-5, 1e-1, True),
        },
    }


def test_defaults_are_scikit_learns_and_auto_sklearns():
    trees = HGB.build(Config(client=HGB.default), 0)
    assert trees.get_params() | {"random_state": None} == HistGradientBoostingClassifier().get_params()
    machine = SVM.build(SVM.space.default(), 0)[-1]
    assert (machine.C, machine.gamma, machine.tol, machine.class_weight) == (1.0, 0.1, 1e-3, "balanced")
    net = MLP.build(MLP.space.default(), 0)[-1]
    assert (net.hidden_layer_sizes, net.alpha, net.learning_rate_init, net.early_stopping) == (
        100,
        1e-4,
        1e-3,
        True,
    )
    # The baseline's l2_regularization of 0 lies outside the space; trial 0 has the least there is.
    assert HGB.space.default().client["l2_regularization"] == 1e-4


def test_scaling_sees_only_the_rows_that_are_fitted_on():
    x = np.linspace(0, 1, 40, dtype=np.float32)[:, None].copy()
    y = np.arange(40) % 2
    kept, held = fold_rows(y, 4, 0, seed=3)
    x[held[0]] = 1000.0
    scaler = fitted(SVM, SVM.space.default(), x[kept], y[kept], 0)[0]
    assert scaler.data_max_[0] <= 1.0
    assert "minmaxscaler" not in str(HGB.build(HGB.space.default(), 0)).lower()


def test_the_loss_is_one_minus_the_mean_score_over_stratified_folds():
    config = Config(client={"C": 3.0, "gamma": 0.2, "tol": 1e-3})
    folds = StratifiedKFold(5, shuffle=True, random_state=7)
    for scoring in ("balanced_accuracy", "roc_auc"):
        scores = cross_val_score(SVM.build(config, 7), X, Y, cv=folds, scoring=scoring)
        ours = cross_validated_loss(SVM, config, X, Y, folds=5, scoring=scoring, seed=7)
        assert ours == pytest.approx(1 - scores.mean(), abs=1e-12)


def test_folds_follow_the_rarest_class():
    assert number_of_folds(np.array([0] * 30 + [1] * 4)) == 4
    assert number_of_folds(np.array([0] * 30 + [1])) == 2
    with pytest.raises(InputError, match="two classes"):
        number_of_folds(np.zeros(5, int))


def test_an_estimator_by_its_path():
    own = learner_of("sklearn.svm:LinearSVC")
    assert own.build(Config(client={"C": 2.0}), 5).get_params()["C"] == 2.0
    own.check(["C"])
    for path, said in (
        ("sklearn.svm:Nothing", "Nothing"),
        ("math:sqrt", "lacks fit"),
        ("nowhere:X", "nowhere"),
    ):
        with pytest.raises(InputError, match=said):
            learner_of(path)
    with pytest.raises(InputError, match="did you mean 'hgb'"):
        learner_of("hbg")
    with pytest.raises(InputError, match="did you mean 'gamma'"):
        SVM.check(["gama"])


def test_the_algorithm_can_be_a_hyperparameter():
    rng = np.random.default_rng(0)
    kinds = {"hgb": HistGradientBoostingClassifier, "svm": SVC}
    for config in (CASH.space.sample(rng) for _ in range(20)):
        own = {one.name: one for one in CASH.learners}[config.model["algorithm"]]
        assert set(config.client) == set(own.space.scope("client"))
        built = CASH.build(config, 0)
        kind = kinds.get(own.name)
        assert kind is None or isinstance(built[-1] if own.scale else built, kind)
    with pytest.raises(InputError, match="share the hyperparameter 'C'"):
        Algorithms((SVM, Learner("linear", "sklearn.svm:LinearSVC", Space(client={"C": Float(0.1, 1)}))))


@pytest.mark.parametrize("classes", [2, 3])
def test_leaves_of_xgboost_hold_at_least_as_many_rows_as_in_hgb(classes):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    y = np.clip((x[:, 0] + rng.normal(scale=0.5, size=300)).round().astype(int) + 1, 0, classes - 1)
    trees = BoostedTrees(max_iter=8, learning_rate=0.3, min_samples_leaf=15).fit(x, y)
    leaves = trees.booster_.predict(xgboost.DMatrix(x), pred_leaf=True).reshape(300, -1)
    fewest = min(np.unique(column, return_counts=True)[1].min() for column in leaves.T)
    assert fewest >= 15
    assert trees.parameters(classes)["min_child_weight"] == (15 / 4 if classes == 2 else 15 / 2)
    assert trees.predict_proba(x).shape == (300, classes)


def test_xgboost_under_this_mapping_is_about_as_good_as_hgb():
    pytest.importorskip("xgboost")
    ours = cross_validated_loss(learner_of("xgboost"), HGB.space.default(), X, Y, folds=3)
    theirs = cross_validated_loss(HGB, HGB.space.default(), X, Y, folds=3)
    assert abs(ours - theirs) < 0.04
