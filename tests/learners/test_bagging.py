"""Trees of several clients joined to one model: the mean of their margins, and nothing else of theirs."""

import json

import numpy as np
import pytest
import xgboost

from fedhpo.learners.bagging import REACH, NotTrees, Trips, boost, read_trees
from fedhpo.learners.boosted import BoostedTrees

FEATURES, ROUNDS = 4, 5


def join(parts, features, classes):
    trips = Trips("bagging", 1, ROUNDS, list(range(len(parts))), features, classes)
    trips.take(dict(enumerate(parts)))
    return trips.model


def rows(count, classes, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, FEATURES)).astype(np.float32)
    return x, rng.integers(0, classes, count)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_margin_is_the_weighted_mean_of_the_clients_margins(classes):
    """XGBoost itself, trained at each client, is the oracle."""
    trees = BoostedTrees(max_iter=ROUNDS, min_samples_leaf=2)
    new = xgboost.DMatrix(rows(20, classes, seed=9)[0])
    parts, margins, weights = [], [], [50.0, 20.0, 30.0]
    for seed, weight in enumerate(weights):
        x, y = rows(int(weight), classes, seed)
        parts.append((read_trees(boost(trees, x, y, classes), FEATURES, classes, ROUNDS), weight))
        own = xgboost.train(trees.parameters(classes) | {"base_score": 0.5}, xgboost.DMatrix(x, y), ROUNDS)
        margins.append(own.predict(new, output_margin=True))
    joined = BoostedTrees().adopt(join(parts, FEATURES, classes), classes)
    expected = np.average(margins, axis=0, weights=weights)
    np.testing.assert_allclose(joined.booster_.predict(new, output_margin=True), expected, atol=1e-6)


def test_a_client_alone_keeps_its_model():
    x, y = rows(40, 2, seed=0)
    trees = BoostedTrees(max_iter=ROUNDS, min_samples_leaf=2)
    sent = read_trees(boost(trees, x, y, 2), FEATURES, 2, ROUNDS)
    once, thrice = (BoostedTrees().adopt(join([(sent, 1.0)] * n, FEATURES, 2), 2) for n in (1, 3))
    np.testing.assert_allclose(once.predict_proba(x), thrice.predict_proba(x), atol=1e-6)
    assert (once.predict(x) == y).mean() > 0.8


def test_a_client_with_one_class_only_can_take_part():
    x, y = rows(30, 3, seed=0)
    sent = read_trees(boost(BoostedTrees(max_iter=2), x, np.zeros_like(y), 3), FEATURES, 3, 2)
    joined = BoostedTrees().adopt(join([(sent, 1.0)], FEATURES, 3), 3)
    assert set(joined.predict(x)) == {0}


def test_nothing_of_its_rows_travels_but_splits_and_leaves():
    x, y = rows(40, 2, seed=0)
    sent = json.loads(boost(BoostedTrees(max_iter=1), x, y, 2))
    assert list(sent) == ["trees"]
    assert set(sent["trees"][0]) == {
        "left_children",
        "right_children",
        "split_indices",
        "split_conditions",
        "default_left",
    }


def split(**changes):
    """A tree with one split and two leaves."""
    tree = {
        "left_children": [1, -1, -1],
        "right_children": [2, -1, -1],
        "split_indices": [3, 0, 0],
        "split_conditions": [0.5, -1.0, 1.0],
        "default_left": [0, 0, 0],
    }
    return json.dumps({"trees": [tree | changes]}).encode()


def test_a_tree_by_hand():
    [tree] = read_trees(split(), FEATURES, 2, 1)
    joined = BoostedTrees().adopt(join([([tree], 1.0)], FEATURES, 2), 2)
    x = np.zeros((2, FEATURES), np.float32)
    x[1, 3] = 0.6
    odds = 1 / (1 + np.exp([1.0, -1.0]))
    np.testing.assert_allclose(joined.predict_proba(x)[:, 1], odds, atol=1e-6)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x80\x04K\x01.", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"trees": {}}', "no trees, expected 1"),
        (b'{"trees": []}', "0 trees, expected 1"),
        (b'{"trees": [7]}', "lacks one of"),
        (split(left_children=[0, -1, -1]), "cannot have the child 0"),
        (split(left_children=[10**9, -1, -1]), "cannot have the child 1000000000"),
        (split(left_children=[-1, -1, -1]), "node 0 cannot have the child -1"),
        (split(right_children=[1, -1, -1]), "no split"),
        (split(left_children=[1, 2, -1], right_children=[2, 2, -1]), "no split"),
        (split(left_children=[-1] * 3, right_children=[-1] * 3), "have a parent"),
        (split(split_indices=[FEATURES, 0, 0]), "no split of 4 features"),
        (split(split_indices=[-1, 0, 0]), "no split of 4 features"),
        (split(split_indices=[1.0, 0, 0]), "whole numbers"),
        (split(default_left=[True, 0, 0]), "whole numbers"),
        (split(split_conditions=[0.5, float("nan"), 1.0]), "finite"),
        (split(split_conditions=[0.5, 1e39, 1.0]), "finite"),
        (split(split_conditions=[0.5, 10**400, 1.0]), "finite"),
        (split(split_conditions=[0.5, 1.0]), "different lengths"),
        (split(split_conditions="abc"), "different lengths"),
        (split(**{name: [] for name in json.loads(split())["trees"][0]}), "one at least"),
    ],
)
def test_trees_that_are_none_are_rejected(raw, why):
    with pytest.raises(NotTrees, match=why):
        read_trees(raw, FEATURES, 2, 1)


# Trips


def trained(training, trips, parties, classes, rounds=6, **settings):
    """One training by hand, with the model after each trip."""
    trees = BoostedTrees(min_samples_leaf=2, **settings)
    one = Trips(training, trips, rounds, list(range(len(parties))), FEATURES, classes)
    models = []
    while not one.over:
        now = BoostedTrees(min_samples_leaf=2, max_iter=one.count, **settings)
        parts = {}
        for place in one.asked:
            raw = boost(now, *parties[place], classes, one.model)
            parts[place] = read_trees(raw, FEATURES, classes, one.count), float(len(parties[place][1]))
        one.take(parts)
        models.append(one.model)
    return trees.adopt(one.model, classes), models


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("training", ["bagging", "cyclic"])
def test_a_party_alone_boosts_on_as_if_it_had_never_stopped(training, classes):
    """XGBoost itself, trained in one go, is the oracle."""
    x, y = rows(60, classes, seed=0)
    model, _ = trained(training, 3, [(x, y)], classes)
    parameters = BoostedTrees(min_samples_leaf=2).parameters(classes) | {"base_score": 0.5}
    whole = xgboost.train(parameters, xgboost.DMatrix(x, y), 6)
    new = xgboost.DMatrix(rows(20, classes, seed=9)[0])
    margins = [one.predict(new, output_margin=True) for one in (model.booster_, whole)]
    np.testing.assert_allclose(*margins, atol=1e-5)


def test_cyclic_parties_boost_on_from_each_other():
    """XGBoost, continued by its own means, is the oracle."""
    parties = [rows(40, 2, seed) for seed in (0, 1)]
    model, _ = trained("cyclic", 4, parties, 2)
    parameters = BoostedTrees(min_samples_leaf=2).parameters(2) | {"base_score": 0.5}
    booster = None
    for turn, count in enumerate([1, 2, 1, 2]):  # six rounds of boosting in four trips
        x, y = parties[turn % 2]
        booster = xgboost.train(parameters, xgboost.DMatrix(x, y), count, xgb_model=booster)
    new = xgboost.DMatrix(rows(20, 2, seed=9)[0])
    margins = [one.predict(new, output_margin=True) for one in (model.booster_, booster)]
    np.testing.assert_allclose(*margins, atol=1e-5)


def test_a_trip_of_bagging_adds_the_mean_of_what_parties_add():
    parties = [rows(20, 2, 0), rows(60, 2, 1)]
    _, (first, second) = trained("bagging", 2, parties, 2, rounds=4)
    new = xgboost.DMatrix(rows(20, 2, seed=9)[0])
    before = BoostedTrees().adopt(first, 2).booster_
    parameters = BoostedTrees(min_samples_leaf=2).parameters(2) | {"base_score": 0.5}
    start = before.predict(new, output_margin=True)
    added = [
        xgboost.train(parameters, xgboost.DMatrix(x, y), 2, xgb_model=before).predict(new, output_margin=True)
        - start
        for x, y in parties
    ]
    expected = start + np.average(added, axis=0, weights=[20, 60])
    found = BoostedTrees().adopt(second, 2).booster_.predict(new, output_margin=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_rounds_of_boosting_are_dealt_to_trips():
    for trips, rounds in ((3, 10), (7, 7), (20, 5)):
        one = Trips("cyclic", trips, rounds, [0, 1], FEATURES, 2)
        counts = []
        while not one.over:
            counts.append(one.count)
            one.done += 1
        assert sum(counts) == rounds
        assert max(counts) - min(counts) <= 1
        assert min(counts) >= 1


def test_who_fails_cyclically_is_left_out_and_nobody_left_is_the_end():
    x, y = rows(20, 2, 0)
    one = Trips("cyclic", 3, 3, [0, 1], FEATURES, 2)
    sent = read_trees(boost(BoostedTrees(max_iter=1, min_samples_leaf=2), x, y, 2), FEATURES, 2, 1)
    one.take({0: (sent, 1.0)})
    assert one.asked == [1]
    one.take({})
    assert one.asked == [0]
    one.take({})
    assert one.over
    assert one.done == 1


def test_over_messages_no_client_reaches_beyond_four_median_ones():
    """Five clients add a margin of 1 or 2, the last one 1e6: it counts as much as 4 x 1, the median."""

    def tree(leaf):
        return {
            "left_children": [-1],
            "right_children": [-1],
            "split_indices": [0],
            "default_left": [0],
            "split_conditions": [leaf],
            "parents": [2**31 - 1],
        }

    leaves = [1.0, 1.0, -1.0, 2.0, 1e6]
    parts = {place: ([tree(leaf)], 1.0) for place, leaf in enumerate(leaves)}
    margins = {}
    for reach in (None, REACH):
        trips = Trips("bagging", 1, 1, list(range(5)), 1, 2, reach=reach)
        trips.take(parts)
        booster = BoostedTrees().adopt(trips.model, 2).booster_
        rows = pytest.importorskip("xgboost").DMatrix(np.zeros((1, 1)))
        margins[reach] = float(booster.predict(rows, output_margin=True)[0])
    assert margins[None] == pytest.approx((1 + 1 - 1 + 2 + 1e6) / 5)
    assert margins[REACH] == pytest.approx((1 + 1 - 1 + 2 + 4) / 5)
