"""The rows of FLoRA's experiments: who holds which, and how a config is scored there and on all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.streams import stream
from fedhpo.data.load import DATASETS
from fedhpo.data.sets.request import Request
from fedhpo.learners import LEARNERS, Learner, cross_validated_loss
from fedhpo.learners.scoring import BALANCED, fitted, score_of
from fedhpo.space.config import Config
from fedhpo_papers.flora.paper import TREES

Array = NDArray[Any]
Rows = tuple[Array, Array]


@dataclass(frozen=True)
class Table:
    """A set dealt to parties, class by class (Tables 3 and 4, 7 to 13); scores are cross-validated.

    Like the two below it has a `name`, which says all that a party's search depends on, a `central_name`,
    which says it of scores with all rows in one place, `members` with their `size`, and two losses, 1 minus
    balanced accuracy: of a config at a party, and `central_loss`, what federated training would give.
    """

    set: str
    learner: str
    parties: int = 3
    rows: int | None = None
    folds: int = 10
    central_folds: int = 10

    @property
    def name(self) -> str:
        return f"{self._what}-k{self.folds}-p{self.parties}"

    @property
    def central_name(self) -> str:
        return f"{self._what}-k{self.central_folds}"

    @property
    def _what(self) -> str:
        return f"{self.set}-{self.learner}" + ("" if self.rows is None else f"-r{self.rows}")

    @property
    def members(self) -> int:
        return self.parties

    def size(self, party: int) -> int:
        return len(_dealt(self.set, self.rows, self.parties)[party])

    def loss(self, party: int, config: Config) -> float:
        x, y = _table(self.set)
        own = _dealt(self.set, self.rows, self.parties)[party]
        return cross_validated_loss(learner_of(self), config, x[own], y[own], folds=self.folds)

    def central_loss(self, config: Config, seed: int = 0) -> float:
        x, y = _table(self.set)
        kept = _kept(self.set, self.rows)
        return cross_validated_loss(
            learner_of(self), config, x[kept], y[kept], folds=self.central_folds, seed=seed
        )


@dataclass(frozen=True)
class Digits:
    """MNIST at four parties whose classes differ (Table 14, D.8): each has training and test images.

    "imb1": two parties draw an even digit four times as likely as an odd one, two the other way round.
    "imb2": digits 0 and 1, 2 and 3, 4 and 5, and all others, one group each.
    """

    imbalance: str
    learner: str
    images: tuple[int, int] = (500, 2500)
    side: int = 28

    members: ClassVar[int] = 4

    @property
    def name(self) -> str:
        fitted_on, tested = self.images
        return f"mnist-{self.imbalance}-{self.learner}-{fitted_on}-{tested}-side{self.side}"

    @property
    def central_name(self) -> str:
        return self.name

    @property
    def set(self) -> str:
        return self.imbalance

    def size(self, party: int) -> int:
        return self.images[0]

    def loss(self, party: int, config: Config) -> float:
        return self._loss(config, [party], 0)

    def central_loss(self, config: Config, seed: int = 0) -> float:
        return self._loss(config, list(range(self.members)), seed)

    def _loss(self, config: Config, parties: list[int], seed: int) -> float:
        own = [_images(self.imbalance, self.images, self.side, party) for party in parties]
        x, y, held_x, held_y = (np.concatenate(arrays) for arrays in zip(*own, strict=True))
        return 1 - score_of(fitted(learner_of(self), config, x, y, seed), held_x, held_y, BALANCED)


@dataclass(frozen=True)
class Trees:
    """Boosted trees trained federated over XGBoost's collective (Table 15), scored on a global hold-out.

    Every party draws its rows from what is not held out, so parties may share some (three times 200 are
    more than there are of Oil spill).
    """

    set: str
    folds: int = 10

    learner: ClassVar[str] = "xgboost"

    @property
    def name(self) -> str:
        return f"{self.set}-xgboost-held-out-k{self.folds}"

    @property
    def central_name(self) -> str:
        return f"{self.set}-xgboost-held-out"

    @property
    def members(self) -> int:
        return TREES[self.set].parties

    def size(self, party: int) -> int:
        return TREES[self.set].rows

    def loss(self, party: int, config: Config) -> float:
        x, y = _table(self.set)
        own = _drawn(self.set)[0][party]
        return cross_validated_loss(learner_of(self), config, x[own], y[own], folds=self.folds)

    def central_loss(self, config: Config, seed: int = 0) -> float:
        from fedhpo.learners.boosted import BoostedTrees
        from fedhpo.learners.collective import train

        x, y = _table(self.set)
        parties, held = _drawn(self.set)
        trees = BoostedTrees(**config.client, random_state=seed)
        rows = {party: (x[own], y[own]) for party, own in enumerate(parties)}
        model = train(rows, trees.parameters(2), trees.max_iter)
        return 1 - score_of(trees.adopt(model, 2), x[held], y[held], BALANCED)


#: What an experiment is about.
Problem = Table | Digits | Trees


def learner_of(problem: Problem) -> Learner:
    """The learner of a problem."""
    learner = LEARNERS[problem.learner]
    assert isinstance(learner, Learner)
    return learner


@lru_cache(maxsize=2)
def _table(name: str) -> Rows:
    samples = DATASETS[name].read(Request(clients=None, seed=0))
    return np.asarray(samples.x), np.asarray(samples.y)


def _stratified(y: Array, share: float, rng: np.random.Generator) -> Array:
    """So large a share of the rows of every class, by chance."""
    kept = [
        rng.permutation(np.flatnonzero(y == label))[: round(share * int((y == label).sum()))]
        for label in np.unique(y)
    ]
    return np.sort(np.concatenate(kept))


@lru_cache(maxsize=4)
def _kept(name: str, rows: int | None) -> Array:
    """The rows that take part."""
    y = _table(name)[1]
    if rows is None or rows >= len(y):
        return np.arange(len(y))
    return _stratified(y, rows / len(y), stream(0, "flora rows", name))


@lru_cache(maxsize=8)
def _dealt(name: str, rows: int | None, parties: int) -> list[Array]:
    """Each class is dealt to the parties in turn, starting where the class before it ended."""
    y, kept = _table(name)[1], _kept(name, rows)
    rng = stream(0, "flora parties", name, parties)
    by_class = [rng.permutation(kept[y[kept] == label]) for label in np.unique(y)]
    order = np.concatenate(by_class)
    return [np.sort(order[party::parties]) for party in range(parties)]


@lru_cache(maxsize=4)
def _drawn(name: str) -> tuple[list[Array], Array]:
    """The rows of each party of Table 15, and those held out."""
    y, bed = _table(name)[1], TREES[name]
    held = _stratified(y, bed.held_out, stream(0, "flora held out", name))
    rest = np.setdiff1d(np.arange(len(y)), held)
    parties = [
        np.sort(stream(0, "flora draw", name, party).choice(rest, bed.rows, replace=False))
        for party in range(bed.parties)
    ]
    return parties, held


@lru_cache(maxsize=8)
def _images(imbalance: str, images: tuple[int, int], side: int, party: int) -> tuple[Array, ...]:
    """Training images, their labels, test images, their labels: no image comes twice, at any two parties.

    Pixels are in 0..1, each the mean of a block of the 28 x 28.
    """
    samples = DATASETS["mnist"].read(Request(clients=None, seed=0))
    y = np.asarray(samples.y)
    rng = stream(0, "flora images", imbalance)
    left = {label: rng.permutation(np.flatnonzero(y == label)).tolist() for label in range(10)}
    for member in range(party + 1):
        labels = rng.choice(10, sum(images), p=_shares(imbalance, member))
        rows = np.array([left[int(label)].pop() for label in labels])
    block = 28 // side
    x = samples.x[rows].astype(np.float32).reshape(-1, side, block, side, block).mean(axis=(2, 4))
    x = x.reshape(len(x), -1) / 255
    kept = images[0]
    return x[:kept], y[rows[:kept]], x[kept:], y[rows[kept:]]


def _shares(imbalance: str, party: int) -> Array:
    """How likely each digit is at a party."""
    if imbalance == "imb1":
        favoured = np.arange(10) % 2 == (0 if party < 2 else 1)
        return np.where(favoured, 0.16, 0.04)
    groups = ((0, 1), (2, 3), (4, 5), (6, 7, 8, 9))
    return np.isin(np.arange(10), groups[party]) / len(groups[party])
