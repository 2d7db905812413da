"""Metrics beside loss and accuracy: against scikit-learn, by hand, and live in a federation."""

import numpy as np
import pytest
from sklearn import metrics as oracle
from sklearn.metrics import make_scorer

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Scores
from fedhpo.protocol.metrics import check_metrics, distinct, metric_of
from fedhpo.run.codec import pack, unpack

RNG = np.random.default_rng(0)
TARGETS = RNG.integers(0, 2, 200)
P = np.clip(0.3 * TARGETS + RNG.random(200) * 0.7, 0, 1)
TWO = np.column_stack([1 - P, P])
CLASSES = RNG.integers(0, 4, 150)
FOUR = RNG.dirichlet(np.ones(4), 150)
NUMBERS, TOLD = RNG.normal(size=80), RNG.normal(size=80)


@pytest.mark.parametrize(
    ("name", "outputs", "targets", "expected"),
    [
        ("auroc", TWO, TARGETS, oracle.roc_auc_score(TARGETS, P)),
        ("auroc", FOUR, CLASSES, oracle.roc_auc_score(CLASSES, FOUR, multi_class="ovr")),
        ("average_precision", TWO, TARGETS, oracle.average_precision_score(TARGETS, P)),
        ("f1", TWO, TARGETS, oracle.f1_score(TARGETS, P > 0.5)),
        ("f1_macro", FOUR, CLASSES, oracle.f1_score(CLASSES, FOUR.argmax(1), average="macro")),
        ("balanced_accuracy", FOUR, CLASSES, oracle.balanced_accuracy_score(CLASSES, FOUR.argmax(1))),
        ("top_2_accuracy", FOUR, CLASSES, oracle.top_k_accuracy_score(CLASSES, FOUR, k=2)),
        ("perplexity", FOUR, CLASSES, np.exp(oracle.log_loss(CLASSES, FOUR))),
        ("mae", TOLD, NUMBERS, oracle.mean_absolute_error(NUMBERS, TOLD)),
        ("rmse", TOLD, NUMBERS, oracle.root_mean_squared_error(NUMBERS, TOLD)),
        ("r2", TOLD, NUMBERS, oracle.r2_score(NUMBERS, TOLD)),
        ("matthews_corrcoef", TWO, TARGETS, oracle.matthews_corrcoef(TARGETS, P > 0.5)),  # scikit-learn's own
        ("roc_auc", TWO, TARGETS, oracle.roc_auc_score(TARGETS, P)),
        ("neg_log_loss", FOUR, CLASSES, -oracle.log_loss(CLASSES, FOUR)),
        ("neg_mean_absolute_error", TOLD, NUMBERS, -oracle.mean_absolute_error(NUMBERS, TOLD)),
        (make_scorer(oracle.fbeta_score, beta=2), TWO, TARGETS, oracle.fbeta_score(TARGETS, P > 0.5, beta=2)),
    ],
)
def test_metrics_are_scikit_learns(name, outputs, targets, expected):
    assert metric_of(name).value(outputs, targets) == pytest.approx(expected)


def test_where_a_metric_is_not_defined_it_is_nan():
    ones = np.ones(5, int)
    assert np.isnan(metric_of("auroc").value(TWO[:5], ones))
    assert np.isnan(metric_of("f1").value(np.tile([1.0, 0.0], (5, 1)), 1 - ones))
    assert np.isnan(metric_of("r2").value(TOLD[:1], NUMBERS[:1]))
    assert np.isnan(metric_of("mae").value(TOLD[:0], NUMBERS[:0]))


def test_a_function_gives_a_number_or_one_a_sample():
    own = fh.Metric("sure", lambda outputs, targets: outputs.max(axis=1), maximise=True)
    assert own.value(TWO, TARGETS) == pytest.approx(TWO.max(axis=1).mean())
    wrong = fh.Metric("wrong", lambda outputs, targets: outputs, maximise=True)
    with pytest.raises(InputError, match=r"'wrong' must give a number, or one for each of 200 samples"):
        wrong.value(TWO, TARGETS)


def test_what_is_no_metric_says_what_to_write():
    with pytest.raises(InputError, match=r"unknown metric 'aurok' \(did you mean 'auroc'\?\)"):
        metric_of("aurok")
    with pytest.raises(InputError, match=r"for a function write fedhpo\.Metric"):
        metric_of(len)
    with pytest.raises(InputError, match="a metric of your own needs direction"):
        fh.Objective("cost")
    with pytest.raises(InputError, match="direction of auroc is 'maximize'"):
        fh.Objective("auroc", direction="minimize")
    assert not fh.Objective("cost", direction="minimize").maximise
    with pytest.raises(InputError, match="two metrics are called 'f1'"):
        distinct(["f1", fh.Metric("f1", len, maximise=True)])
    with pytest.raises(InputError, match="'auroc' is for classes, but targets are numbers"):
        check_metrics([metric_of("auroc")], "regression")
    with pytest.raises(InputError, match="'mae' is for regression"):
        check_metrics([metric_of("mae")], "classification")


def scores(**metrics):
    count = len(next(iter(metrics.values())))
    return Scores(
        0,
        "validation",
        np.arange(count),
        np.zeros(count, np.int8),
        np.arange(1, count + 1),
        np.full(count, 0.5),
        np.full(count, 0.25),
        metrics={name: np.array(values) for name, values in metrics.items()},
    )


def test_clients_where_it_is_not_defined_do_not_count():
    seen = fh.Objective("auroc").observe(scores(auroc=[0.6, np.nan, 0.9]), 1, 3)
    assert seen.value == pytest.approx((1 * 0.6 + 3 * 0.9) / 4)
    assert (seen.clients, seen.rank_value) == (2, -seen.value)
    nobody = fh.Objective("auroc").observe(scores(auroc=[np.nan, np.nan]), 1, 2)
    assert (np.isnan(nobody.value), nobody.rank_value) == (True, np.inf)


def test_metrics_are_recorded_exactly():
    given = [scores(auroc=[0.1, np.nan], f1=[1 / 3, 0.2]), scores(auroc=[0.7, 0.8], f1=[0.0, 1.0])]
    for before, after in zip(given, unpack(pack(given)), strict=True):
        assert list(after.metrics) == ["auroc", "f1"]
        for name in after.metrics:
            np.testing.assert_array_equal(after.metrics[name], before.metrics[name])
    assert unpack(pack([scores(f1=[0.5])]))[0].mean("f1") == 0.5


def imbalanced(clients=8, count=100, seed=0):
    """Two classes, 12% of rows of the second; two features of which one tells something."""
    rng = np.random.default_rng(seed)
    made = {}
    for client in range(clients):
        y = (rng.random(count) < 0.12).astype(np.int64)
        x = rng.normal(size=(count, 2)).astype(np.float32)
        x[:, 0] += 1.5 * y
        made[f"site {client}"] = (x, y)
    return fh.from_clients(made, validation=0.3, test=0.2)


SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True), "epochs": 2})


def tuned(federation, objective, **more):
    return fh.tune(federation, SPACE, "random", rounds=4, total=12, cohort=4, objective=objective, **more)


def test_a_search_for_auroc_differs_from_one_for_accuracy_and_says_what_it_is():
    data = imbalanced()
    with fh.simulate("linear", data, workers=0) as federation:
        result = tuned(federation, "auroc", metrics=["f1", "average_precision"])
        assert result.facts["objective"]["metric_is"].startswith("the mean over clients of each one's auroc")
        assert result.best_score > 0.7
        assert result.metrics["auroc"] == pytest.approx(result.best_score)
        assert set(result.metrics) == {"accuracy", "loss", "auroc", "f1", "average_precision"}
        assert set(result.test) >= {"auroc", "f1", "value"}
        assert all("auroc" in row for row in result.history if row["kind"] == "evaluate")
        [best] = [trace for trace in result.plot.history().data if trace.name == "best so far"]
        assert best.y[-1] == pytest.approx(result.best_score)

        # By hand: the model's probabilities at each client's own validation rows.
        import torch

        trial = max(result.trials, key=lambda row: row["score"])
        found = []
        for client in range(8):
            rows = data.validation.rows(client)
            with torch.no_grad():
                p = result.model(torch.as_tensor(data.x[rows])).softmax(1)[:, 1].numpy()
            if len(set(data.y[rows])) == 2:
                found.append((oracle.roc_auc_score(data.y[rows], p), len(rows)))
        values, sizes = zip(*found, strict=True)
        assert np.average(values, weights=sizes) == pytest.approx(result.facts["best"]["metrics"]["auroc"])
        assert trial["score"] == pytest.approx(result.best_score)


def test_workers_do_not_change_metrics():
    runs = []
    for workers in (0, 2):
        with fh.simulate("linear", imbalanced(), workers=workers) as federation:
            runs.append(tuned(federation, "f1", metrics=["auroc"]))
    assert runs[0].facts["best"] == runs[1].facts["best"]
    assert [dict(row) for row in runs[0].trials] == [dict(row) for row in runs[1].trials]


def cost(outputs, targets):
    return np.where(targets == 1, 8 * outputs[:, 0], outputs[:, 1])


def test_a_metric_of_ones_own_is_minimised():
    own = fh.Metric("cost", cost, maximise=False)
    with fh.simulate("linear", imbalanced(), workers=0) as federation:
        result = tuned(federation, fh.Objective("cost", direction="minimize"), metrics=[own])
        assert result.best_score == min(row["score"] for row in result.trials if row["rounds"] == 4)
        with pytest.raises(InputError, match=r"metric 'cost': give it to fedhpo.tune\(metrics="):
            tuned(federation, fh.Objective("cost", direction="minimize"))
        with pytest.raises(InputError, match="direction: 'cost' says maximise=False"):
            tuned(federation, fh.Objective("cost", direction="maximize"), metrics=[own])


def test_learners_have_the_same_metrics():
    space = fh.Space(client={"C": fh.Float(0.1, 10.0, log=True)})
    for name in ("svm", "sklearn.linear_model:LogisticRegression"):
        with fh.LearnerFederation(imbalanced(), name, workers=0) as federation:
            result = fh.tune(
                federation, space, "random", rounds=1, total=2, cohort=8, objective="auroc", metrics=["f1"]
            )
        assert result.best_score > 0.7
        assert set(result.metrics) == {"accuracy", "loss", "auroc", "f1"}


def test_what_cannot_be_bounded_is_refused_under_privacy():
    private = fh.Evaluator(privacy=fh.Privacy(epsilon=5.0))
    with (
        fh.simulate("linear", imbalanced(), workers=0, weighting="uniform") as federation,
        pytest.raises(InputError, match="privacy: auroc is not defined at every client"),
    ):
        tuned(federation, "auroc", evaluation=private)


def test_regression_is_tuned_without_a_special_word():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 50, 2)).astype(np.float32)
    data = fh.from_clients([(one, one[:, 0] * 2) for one in x], validation=0.3)
    with fh.simulate("linear", data, workers=0) as federation:
        result = tuned(federation, None, metrics=["r2", "mae"])
    assert result.facts["objective"]["metric"] == "loss"
    assert "accuracy" not in result.metrics
    assert "nan" not in str(result)
    assert result.metrics["r2"] > 0.5


def test_a_score_that_is_the_majority_class_is_said_to_be():
    data = imbalanced()
    share = np.bincount(data.y[data.validation.indices]).max() / len(data.validation.indices)
    space = fh.Space(client={"lr": fh.Float(1e-7, 2e-7, log=True)})

    def always(model, own, hyperparameters, generator):
        import torch

        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
            list(model.parameters())[-1][0] = 5.0

    with fh.simulate("linear", data, train=always, workers=0) as federation:
        result = fh.tune(federation, space, "random", rounds=1, total=2, cohort=8)
        assert result.best_score == pytest.approx(share)
        assert "does not beat predicting the commonest class" in str(result)
        assert tuned(federation, "auroc").facts["note"] == ""
