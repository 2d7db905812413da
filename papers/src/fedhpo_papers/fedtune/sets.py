"""The federations of FedTune's reproduction: what is public, what clients hold, what is tested on.

The proxy set is drawn from the training images and taken out of them; a part of it, balanced, scores the
tuning. Clients share out the rest. Test images are the published ones, or, where there are none (FEMNIST,
digits), a balanced draw that nobody else has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.data import DATASETS, FederatedData, GaussianSkew, HeterogeneityIndex, Natural, PoissonSkew, Split
from fedhpo.data.by_class import by_class
from fedhpo.data.container import Integers
from fedhpo.data.partition import Partitioner
from fedhpo.data.samples import Samples
from fedhpo.data.sets.request import Request
from fedhpo.methods.fedtune import Cells, ProxySet
from fedhpo.space import Ordinal, Space
from fedhpo_papers.fedtune.world_setting import WorldSetting

PARTITIONS = ("index", "gaussian", "poisson", "natural")


@dataclass(frozen=True)
class Setting:
    """One data set at one scale; `own` are the paper's global learning rate and batch size (its Table 3)."""

    data: str
    own: tuple[float, int]
    model: str = "cnn_small"
    shape: Mapping[str, Any] = field(default_factory=lambda: {"width": 8, "hidden": 32})
    clients: int = 24
    cohort: int = 5
    rounds: int = 60
    proxy: int = 3000
    held_out: int = 500
    test: int = 2000
    epochs: tuple[int, ...] = (1, 2, 4)
    indices: tuple[float, ...] = (0.2, 0.5, 0.8)
    quantities: tuple[int, ...] = (50, 200)

    @property
    def cells(self) -> Cells:
        """The table's cells, which are also the profiles that clients have."""
        return Cells(self.indices, self.quantities)

    @property
    def space(self) -> Space:
        """Learning rates 0.002 to 0.8 in steps of 0.002, three batch sizes, three numbers of epochs."""
        rate, batch = self.own
        return Space(
            client={
                "lr": Ordinal([round(0.002 * k, 3) for k in range(1, 401)], log=True, default=rate),
                "batch_size": Ordinal([4, 8, 16], default=batch),
                "epochs": Ordinal(list(self.epochs), default=self.epochs[1]),
            },
            model=dict(self.shape),
        )

    @property
    def words(self) -> str:
        """What is run, for the page."""
        shape = "".join(f", {name} {value}" for name, value in self.shape.items())
        return (
            f"{self.model}{shape}; {self.clients} clients, {self.cohort} a round, {self.rounds} rounds; "
            f"{len(self.cells)} cells; epochs {', '.join(map(str, self.epochs))}; {self.proxy} proxy rows, "
            f"{self.held_out} of them held out; {self.test} test rows"
        )


@dataclass(frozen=True, eq=False)
class World:
    """The samples of a set, and whose they are."""

    setting: Setting
    samples: Samples
    public: Integers
    private: Integers
    tested: Integers

    @classmethod
    def of(cls, setting: Setting) -> World:
        """Read the set and divide it."""
        samples = DATASETS[setting.data].read(Request(None, 0))
        every = np.arange(len(samples.y))
        rows = every if samples.rows is None else samples.rows
        rng = stream(0, "world")
        published = np.setdiff1d(every, rows) if setting.data != "femnist" else np.empty(0, np.int64)
        if len(published):
            tested = balanced(samples.y, published, setting.test, 1.0, rng)
        else:
            tested = balanced(samples.y, rows, setting.test, 1 / 3, rng)
        left = rng.permutation(np.setdiff1d(rows, tested))
        return cls(setting, samples, np.sort(left[: setting.proxy]), np.sort(left[setting.proxy :]), tested)

    @property
    def proxy(self) -> ProxySet:
        """The public part."""
        data = self._data([self.public], None)
        return ProxySet.of(data, self.setting.held_out)

    def clients(self, partition: str = "index") -> FederatedData:
        """The clients, whose rows are all for training; one more client holds what is tested on."""
        labels, groups = self.samples.y[self.private], self.samples.groups
        dealt = self._partitioner(partition)(
            labels, stream(0, "clients", partition), None if groups is None else groups[self.private]
        )
        return self._data([self.private[dealt.rows(c)] for c in range(dealt.clients)], self.tested)

    def with_scorer(self, partition: str = "index") -> tuple[FederatedData, int]:
        """The clients, and one that holds the proxy set's held-out rows: for hand tuning."""
        held = self.public[self.proxy.scored]
        data = self.clients(partition)
        lists = [data.train.rows(c) for c in range(data.clients - 1)]
        x, y = self.samples.x[held], self.samples.y[held]
        start = len(data.y)
        more = replace(
            data,
            x=np.concatenate([data.x, x]),
            y=np.concatenate([data.y, y]),
            train=Split.from_lists([*lists, []]),
            validation=Split.from_lists([*([[]] * len(lists)), start + np.arange(len(held))]),
            test=Split.from_lists([[]] * (len(lists) + 1)),
        )
        return more.validate(), len(lists)

    def _partitioner(self, partition: str) -> Partitioner:
        setting = self.setting
        mean = min(float(np.mean(setting.quantities)), len(self.private) // setting.clients)
        made: dict[str, Partitioner] = {
            "index": HeterogeneityIndex(setting.clients, setting.indices, setting.quantities, replace=True),
            "gaussian": GaussianSkew(setting.clients, 1.5, mean, 0.5),
            "poisson": PoissonSkew(setting.clients, 1.5, mean),
            "natural": Natural(setting.clients),
        }
        return made[partition]

    def _data(self, lists: list[Integers], tested: Integers | None) -> FederatedData:
        """Only the rows that are held: the rest need not travel to the workers."""
        every = [*lists, *([] if tested is None else [tested])]
        kept = np.concatenate(every)
        ends = np.concatenate([[0], np.cumsum([len(rows) for rows in every])])
        places = [np.arange(a, b) for a, b in pairwise(ends)]
        nothing: list[Any] = [[]] * len(every)
        held = [*places[:-1], []] if tested is not None else places
        return FederatedData(
            x=self.samples.x[kept],
            y=self.samples.y[kept],
            train=Split.from_lists(held),
            validation=Split.from_lists(nothing),
            test=Split.from_lists([*nothing[:-1], places[-1]] if tested is not None else nothing),
            task=self.samples.task,
            classes=self.samples.classes,
            mean=self.samples.mean,
            std=self.samples.std,
            name=self.setting.data,
        ).validate()


def balanced(labels: Any, rows: Integers, count: int, most: float, rng: np.random.Generator) -> Integers:
    """About `count` rows, as many of each class, never more than the share `most` of a class."""
    pool = by_class(labels[rows].astype(np.int64), rng)
    each = np.minimum(max(1, count // pool.clients), np.maximum((most * pool.sizes).astype(np.int64), 1))
    return np.sort(rows[pool.where(pool.places < each[pool.owners]).indices])


@dataclass(frozen=True)
class Scale:
    """How much of everything; `docs/methods/fedtune.md` says how long the default takes."""

    sets: Mapping[str, Setting]
    pool: int
    steps: int
    live_steps: int
    simulated_clients: int
    simulated_rounds: int
    hand_points: int
    alone_rounds: int
    rates: int
    #: Quantities that stand for the paper's 400 and 800 in its Table 2.
    table_2_quantities: tuple[int, int]
    seeds: int
    tuner_seeds: int
    world_sets: Mapping[str, WorldSetting]
    cnn_sets: Mapping[str, WorldSetting]
    #: Worlds with the paper's 24 cells.
    cells_sets: Mapping[str, WorldSetting]
    #: Worlds of each set; as many as the plan says if None.
    worlds: int | None = None


_DEFAULT = {
    "fashion_mnist": Setting("fashion_mnist", (0.002, 8)),
    "cifar10": Setting("cifar10", (0.05, 16)),
    "femnist": Setting("femnist", (0.004, 8), test=620, held_out=620),
}
_INDICES, _QUANTITIES = (0.2, 0.4, 0.6, 0.8), (100, 200, 400, 600, 800, 1000)
_LARGE: dict[str, Any] = {
    "epochs": (5, 10, 15),
    "indices": _INDICES,
    "quantities": _QUANTITIES,
    "held_out": 1000,
    "test": 10_000,
}
_PAPER = {
    "fashion_mnist": Setting("fashion_mnist", (0.002, 8), "cnn_leaf", {}, 50, 5, 500, 5000, **_LARGE),
    "cifar10": Setting("cifar10", (0.05, 16), "cnn_cifar", {}, 50, 5, 500, 6000, **_LARGE),
    # One client a cell in place of 192 in all, whose rows there are not.
    "femnist": Setting(
        "femnist", (0.004, 8), "cnn_leaf", {}, 24, 10, 2000, 5000, **{**_LARGE, "test": 1240, "held_out": 620}
    ),
}
_TINY = Setting(
    "digits", (0.1, 8), "linear", {}, 6, 3, 4, 700, 100, 100, (1, 2, 3), (0.2, 0.5, 0.8), (20, 40)
)
_SMOKE = dict.fromkeys(_DEFAULT, _TINY)

_WORLDS = {
    "fashion_mnist": WorldSetting("fashion_mnist", (0.002, 8)),
    "femnist": WorldSetting("femnist", (0.004, 8), held_out=620, test=1240),
    "cifar10": WorldSetting("cifar10", (0.05, 16)),
}
_CNN = {
    "fashion_mnist": WorldSetting("fashion_mnist", (0.002, 8), model="cnn_small", rates=(0.05, 0.1, 0.2, 0.4))
}
_CELLS = {"femnist": replace(_WORLDS["femnist"], indices=_INDICES, quantities=(50, 80, 110, 140, 170, 200))}
_TINY_WORLD = WorldSetting(
    "digits",
    (0.1, 8),
    components=16,
    hidden=8,
    clients=8,
    cohort=3,
    rounds=4,
    proxy=700,
    held_out=100,
    test=200,
    indices=(0.2, 0.8),
    quantities=(20, 40),
    steps=6,
    deals=1,
    simulated_rounds=2,
    cell_steps=4,
    cell_rounds=2,
    rates=(0.1, 0.2),
    slopes=(-1.0,),
)

SCALES: Mapping[str, Scale] = {
    "default": Scale(_DEFAULT, 120, 40, 15, 5, 10, 5, 10, 12, (100, 200), 3, 5, _WORLDS, _CNN, _CELLS),
    "paper": Scale(_PAPER, 400, 160, 60, 5, 20, 8, 20, 20, (400, 800), 5, 10, _WORLDS, _CNN, _CELLS),
    "smoke": Scale(
        _SMOKE,
        10,
        6,
        3,
        2,
        2,
        2,
        2,
        3,
        (20, 40),
        2,
        2,
        {"digits": _TINY_WORLD},
        {"digits": _TINY_WORLD},
        {"digits": _TINY_WORLD},
        2,
    ),
}
