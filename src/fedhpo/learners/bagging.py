"""Boosted trees that clients grow on their own rows, and that the server joins to one model, trip by trip.

By bagging all clients boost on from the same model, side by side. The margin (log-odds) that they add is the
mean of theirs, weighted or not: their new trees side by side, with leaves scaled by the client's weight. With
a single trip that is the mean of models that were boosted apart. Cyclically one client after the other boosts
on from where the one before it stopped, and its trees count in full.

A client sends the splits and leaves of its new trees in the words of XGBoost's JSON; gains and counts of its
rows do not travel. The server checks them and writes the model itself, so that XGBoost reads nothing that a
client wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.protocol.errors import NotTrees as NotTrees

if TYPE_CHECKING:
    from fedhpo.learners.boosted import BoostedTrees

BAGGING, CYCLIC = "bagging", "cyclic"
#: How one federated training is done, as the result names it.
JOINED = {
    BAGGING: "bagging (each client's boosted trees on its own rows, joined; rows stay with them)",
    CYCLIC: "cyclic (each client boosts on from the one before it; rows stay with them)",
}
#: The same at every client: XGBoost would else begin with the share of each class among its rows.
_BASE = {"base_score": 0.5}
_ROOT = 2**31 - 1
#: Over messages a client's trees add at most so many times the margin of the median client's. Honest clients
#: of few rows add less than others, hardly a quarter; one that adds more is shortened, not left out.
REACH = 4.0
#: What float32 can hold, or nearly.
_MOST = 3e38
#: Stands for the trees of a model, which are written one by one.
_PLACE = "the trees"
#: What a tree is, of all that XGBoost writes; the rest describes the rows that it was grown on.
_SPLITS = ("left_children", "right_children", "split_indices", "default_left")

Tree = dict[str, Any]


@dataclass
class Trips:
    """One federated training: who boosts how many rounds next, and on from which model.

    `rounds` of boosting are dealt to `trips` as evenly as can be, one at least to each. By bagging all of
    `places` (positions in the cohort) boost in a trip; cyclically they take turns. Who fails cyclically is
    left out from then on, and the next one takes its turn.

    >>> one = Trips("bagging", trips=2, rounds=5, places=[0, 1], features=1, classes=2)
    >>> one.asked, one.count
    ([0, 1], 2)
    """

    training: str
    trips: int
    rounds: int
    places: list[int]
    features: int
    classes: int
    done: int = 0
    model: bytes = b""
    #: How many median clients' margins one client's may reach; None where clients are not hostile.
    reach: float | None = None
    _written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trips = min(self.trips, self.rounds)

    @property
    def over(self) -> bool:
        """Whether the training has ended: well, or because nobody is left."""
        return self.done == self.trips or not self.places

    @property
    def asked(self) -> list[int]:
        """Who boosts in this trip."""
        return self.places if self.training == BAGGING else [self.places[self.done % len(self.places)]]

    @property
    def count(self) -> int:
        """How many rounds of boosting are added in this trip."""
        return (self.done + 1) * self.rounds // self.trips - self.done * self.rounds // self.trips

    def take(self, parts: Mapping[int, tuple[Sequence[Tree], float]]) -> None:
        """The trees, and the weight, of each of those that replied."""
        if not parts:
            if self.training == CYCLIC:
                self.places = [place for place in self.places if place not in self.asked]
            else:
                self.places = []
            return
        total = sum(weight for _, weight in parts.values())
        shares = {place: weight / total for place, (_, weight) in parts.items()}
        if self.reach is not None and self.training == BAGGING:
            shares = _bounded(shares, {place: one for place, (one, _) in parts.items()}, self.reach)
        grown = (_scaled(tree, shares[place]) for place, (one, _) in sorted(parts.items()) for tree in one)
        for place, tree in enumerate(grown, len(self._written)):
            self._written.append(json.dumps(_written(tree, place, self.features)))
        self.model = _model_of(self._written, self.features, self.classes)
        self.done += 1


def check_trips(training: Any, trips: Any) -> None:
    """Refuse a way of training that there is not, or a number of trips."""
    if training not in JOINED:
        raise unknown_name("training", training, JOINED)
    if isinstance(trips, bool) or not isinstance(trips, int) or trips < 1:
        raise InputError(f"trips must be a whole number of at least 1, not {trips!r}")


def boost(trees: BoostedTrees, x: NDArray[Any], y: NDArray[Any], classes: int, model: bytes = b"") -> bytes:
    """Trees grown on one client's rows, on from a `model` if there is one, as the client sends them.

    >>> x, y = np.arange(40.0).reshape(-1, 1), (np.arange(40) > 19).astype(int)
    >>> from fedhpo.learners.boosted import BoostedTrees
    >>> raw = boost(BoostedTrees(max_iter=2), x, y, classes=2)
    >>> len(read_trees(raw, features=1, classes=2, rounds=2))
    2
    """
    from fedhpo.learners.boosted import BoostedTrees, import_xgboost

    xgboost = import_xgboost()
    parameters = trees.parameters(classes) | _BASE
    rows = xgboost.DMatrix(x, y, nthread=1)
    if model:  # on from its margins: so the trees that come are the new ones
        before = BoostedTrees().adopt(model, classes).booster_
        rows.set_base_margin(before.predict(rows, output_margin=True))
    booster = xgboost.train(parameters, rows, trees.max_iter)
    found = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]
    names = (*_SPLITS, "split_conditions")
    return json.dumps({"trees": [{name: tree[name] for name in names} for tree in found]}).encode()


def read_trees(raw: bytes, features: int, classes: int, rounds: int) -> list[Tree]:
    """The trees that a client sent; `NotTrees` where they are not what was asked for."""
    try:
        found = json.loads(raw)["trees"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotTrees(f"its trees cannot be read: {type(error).__name__}: {str(error)[:100]}") from None
    expected = rounds * _groups(classes)
    if not isinstance(found, list) or len(found) != expected:
        count = len(found) if isinstance(found, list) else "no"
        raise NotTrees(f"it sent {count} trees, expected {expected}")
    return [_checked(tree, place, features) for place, tree in enumerate(found)]


def _checked(given: Any, place: int, features: int) -> Tree:
    """A tree with nothing in it that was not looked at: children after parents, features that there are."""
    if not isinstance(given, dict) or not all(isinstance(given.get(name), list) for name in _SPLITS):
        raise NotTrees(f"tree {place} lacks one of {', '.join(_SPLITS)}")
    values = given.get("split_conditions")
    left, right, split, default = (given[name] for name in _SPLITS)
    nodes = len(left)
    if not isinstance(values, list) or {len(part) for part in (right, split, default, values)} != {nodes}:
        raise NotTrees(f"tree {place}: its lists are of different lengths")
    if not nodes or not all(type(number) is int for part in (left, right, split, default) for number in part):
        raise NotTrees(f"tree {place}: its nodes must be whole numbers, one at least")
    if not all(type(v) in (int, float) and abs(v) < _MOST for v in values):
        raise NotTrees(f"tree {place}: its values must be finite numbers")
    parents = [_ROOT] * nodes
    for node in range(nodes):
        children = (left[node], right[node])
        if children == (-1, -1):
            continue
        # Who comes after its parent, and has but one, can be in no circle.
        if not (0 <= split[node] < features and default[node] in (0, 1) and left[node] != right[node]):
            raise NotTrees(f"tree {place}: node {node} is no split of {features} features")
        for child in children:
            if not node < child < nodes or parents[child] != _ROOT:
                raise NotTrees(f"tree {place}: node {node} cannot have the child {child}")
            parents[child] = node
    if parents.count(_ROOT) != 1:
        raise NotTrees(f"tree {place}: not all of its nodes have a parent")
    return dict(zip(_SPLITS, (left, right, split, default), strict=True)) | {
        "split_conditions": [float(value) for value in values],
        "parents": parents,
    }


def _model_of(trees: Sequence[str], features: int, classes: int) -> bytes:
    """A model of trees in XGBoost's JSON, those of one round of boosting after those of the one before."""
    from fedhpo.learners.boosted import BoostedTrees, import_xgboost

    xgboost, groups = import_xgboost(), _groups(classes)
    rows = xgboost.DMatrix(np.zeros((1, features), np.float32), np.zeros(1), nthread=1)
    empty = xgboost.train(BoostedTrees().parameters(classes) | _BASE, rows, 0)
    whole = json.loads(bytes(empty.save_raw("json")))
    model = whole["learner"]["gradient_booster"]["model"]
    model["trees"] = _PLACE
    model["tree_info"] = [place % groups for place in range(len(trees))]
    model["iteration_indptr"] = list(range(0, len(trees) + 1, groups))
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    text = json.dumps(whole).replace(f'"{_PLACE}"', f"[{','.join(trees)}]")
    empty.load_model(bytearray(text.encode()))
    return bytes(empty.save_raw("ubj"))


def _bounded(
    shares: Mapping[int, float], trees: Mapping[int, Sequence[Tree]], most: float
) -> dict[int, float]:
    """Shares lowered where a client's trees add more than `most` times the margin of the median client's."""
    reached = {place: sum(map(_reach, own)) for place, own in trees.items()}
    limit = most * float(np.median(list(reached.values())))
    if len(reached) < 3 or not limit:
        return dict(shares)
    return {
        place: share * limit / reached[place] if reached[place] > limit else share
        for place, share in shares.items()
    }


def _reach(tree: Tree) -> float:
    """The most that a tree can add to a margin."""
    values = zip(tree["split_conditions"], tree["left_children"], strict=True)
    return max(abs(float(value)) for value, child in values if child == -1)


def _scaled(tree: Tree, share: float) -> Tree:
    leaves = [child == -1 for child in tree["left_children"]]
    values = zip(tree["split_conditions"], leaves, strict=True)
    return tree | {"split_conditions": [value * share if leaf else value for value, leaf in values]}


def _written(tree: Mapping[str, Any], place: int, features: int) -> Tree:
    """A tree with all that XGBoost wants to read; numbers that only describe training rows are 0."""
    nodes = len(tree["left_children"])
    nothing: Tree = {f"categories{what}": [] for what in ("", "_nodes", "_segments", "_sizes")}
    zeros = {name: [0.0] * nodes for name in ("base_weights", "loss_changes", "sum_hessian")}
    sizes = {"num_deleted": 0, "num_feature": features, "num_nodes": nodes, "size_leaf_vector": 1}
    return {
        **tree,
        **nothing,
        **zeros,
        "split_type": [0] * nodes,
        "id": place,
        "tree_param": {name: str(value) for name, value in sizes.items()},
    }


def _groups(classes: int) -> int:
    """Trees in a round of boosting."""
    return 1 if classes <= 2 else classes
