"""Worlds: fresh draws of everything, so that what is compared is the method and not one deal of the data.

In each world the test rows, the public rows, the clients' rows, the simulations and the trainings are drawn
anew. Images become their first principal components, fitted on the public rows, and the model is a small
MLP: so a world takes a minute or two, and two dozen can tell one way from another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.journal import Journal
from fedhpo.core.streams import derive, stream
from fedhpo.data import DATASETS, FederatedData, HeterogeneityIndex, Split
from fedhpo.data.container import Floats, Integers
from fedhpo.data.samples import Samples
from fedhpo.data.sets.request import Request
from fedhpo.methods.fedtune import (
    CellTuner,
    ProxySet,
    ReferenceTable,
    Simulation,
    Simulator,
    fill_table,
)
from fedhpo.methods.fedtune.mixture import Chosen, Mixture
from fedhpo.methods.fedtune.profiles import Profiles
from fedhpo.methods.fedtune.shapes import Shape, Tables
from fedhpo.protocol.federation import ClientSide
from fedhpo.reproduce.fedtune.sets import balanced
from fedhpo.reproduce.fedtune.training import Way, trainings
from fedhpo.reproduce.fedtune.world_setting import WorldSetting
from fedhpo.space.config import Config


@dataclass(frozen=True, eq=False)
class FreshWorld:
    """One world of a set: everything drawn anew by its number."""

    setting: WorldSetting
    number: int

    @cached_property
    def _samples(self) -> Samples:
        return DATASETS[self.setting.data].read(Request(None, 0))

    @cached_property
    def _rows(self) -> tuple[Integers, Integers, Integers]:
        """Test rows, public rows, and the rows of the clients: no row is in two of them."""
        samples, setting = self._samples, self.setting
        rng = stream(self.number, "world", setting.data)
        every = rng.permutation(len(samples.y)).astype(np.int64)
        tested = balanced(samples.y, np.sort(every), setting.test, 1 / 3, rng)
        left = every[~np.isin(every, tested)]
        return tested, left[: setting.proxy], left[setting.proxy :]

    @cached_property
    def _projection(self) -> tuple[Floats, Floats, float]:
        """Mean, directions and scale of the first principal components of the public rows."""
        x = self._flat(self._rows[1])
        mean = x.mean(axis=0)
        _, _, directions = np.linalg.svd(x - mean, full_matrices=False)
        first = directions[: self.setting.components].T
        return mean, first, float(((x - mean) @ first).std())

    def _flat(self, rows: Integers) -> Floats:
        return np.asarray(self._samples.x[rows].reshape(len(rows), -1), np.float64)

    def _data(self, train: list[Integers], test: Integers | None) -> FederatedData:
        """Clients that hold these rows; one more holds what is tested on."""
        samples, setting = self._samples, self.setting
        lists = [*train, *([] if test is None else [test])]
        kept, places = np.unique(np.concatenate(lists), return_inverse=True)
        ends = np.cumsum([0, *(len(rows) for rows in lists)])
        held = [places[a:b] for a, b in pairwise(ends)]
        x: Any = samples.x[kept]
        scaling: dict[str, Any] = {"mean": samples.mean, "std": samples.std}
        if setting.model == "mlp":
            mean, first, scale = self._projection
            x = ((self._flat(kept) - mean) @ first / scale).astype(np.float32)
            scaling = {"mean": None, "std": None}
        nothing: list[Any] = [[]] * len(lists)
        return FederatedData(
            x=x,
            y=samples.y[kept],
            train=Split.from_lists(held if test is None else [*held[:-1], []]),
            validation=Split.from_lists(nothing),
            test=Split.from_lists(nothing if test is None else [*nothing[:-1], held[-1]]),
            task=samples.task,
            classes=samples.classes,
            name=setting.data,
            **scaling,
        ).validate()

    @cached_property
    def proxy(self) -> ProxySet:
        """The public part."""
        return ProxySet.of(self._data([self._rows[1]], None), self.setting.held_out, self.number)

    @cached_property
    def clients(self) -> FederatedData:
        """The clients, all of whose rows are for training, and one that tests."""
        tested, _, private = self._rows
        setting = self.setting
        deal = HeterogeneityIndex(setting.clients, setting.indices, setting.quantities, replace=True)
        dealt = deal(self._samples.y[private], stream(self.number, "clients"))
        return self._data([private[dealt.rows(c)] for c in range(dealt.clients)], tested)

    @property
    def seed(self) -> int:
        """Of its simulations and trainings."""
        return derive(self.number, "simulations")


@dataclass(eq=False)
class Explored:
    """What was found in a world: a way to set the clients' hyperparameters for each name."""

    ways: dict[str, Way]
    facts: dict[str, Any]


def explore(world: FreshWorld, simulate: Callable[[FederatedData], Any], folder: Path) -> Explored:
    """All searches of a world, each resumable."""
    setting = world.setting
    profiles, budget = Profiles.uniform(setting.cells), setting.budget
    proxies = world.proxy.mixture(profiles, budget.clients, budget.groups, seed=world.seed)
    journal = Journal(folder / "mixture.jsonl", {"world": world.number, "setting": asdict(setting)})
    default = setting.space.default()
    with simulate(proxies.data) as federation:
        simulator = Simulator(
            federation,
            proxies.groups,
            proxies.scorer,
            budget.rounds,
            budget.cohort,
            model=setting.shape,
            seed=world.seed,
            resolve=proxies.resolve,
        )
        mixture = Mixture(simulator, budget, journal)

        def tables(shape: Shape) -> Tables:
            return Tables(setting.space, profiles, shape)

        one = mixture.search(tables("constant"), world.seed)
        rate = tables("rate")
        found = mixture.search(rate, world.seed, one.search, rate.around(one.config))
        capped = mixture.capped(found, one.tables)
        weight = mixture.search(tables("weight"), world.seed, one.search, falling_weights(one))
        nova = mixture.search(tables("fednova"), world.seed)
        compared = mixture.compared(capped, one, default)
    cells = fill_table(
        world.proxy,
        simulate,
        setting.listed,
        cells=setting.cells,
        simulation=Simulation(5, setting.cell_rounds),
        tuner=CellTuner("gp", setting.cell_steps, None),
        seed=world.seed,
        directory=folder / "cells",
    )
    ways: dict[str, Way] = {
        "own": default.client,
        "global": one.table,
        "mixture": capped.table,
        "guarded": capped.table if compared["kept"] else one.table,
        "weights": weight.table,
        "fednova": nova.table,
        "cells": cells,
    }
    facts = {
        "global": one.config.to_dict(),
        "mixture": capped.config.to_dict(),
        "capped": capped.config != found.config,
        "weights": weight.config.to_dict(),
        "fednova": nova.config.to_dict(),
        "cells": [dict(config) for config in cells.configs],
        "compared": compared,
    }
    return Explored(ways, facts)


def falling_weights(one: Chosen) -> list[Config]:
    """Weights that fall with the index at the best constant config, to begin with: as for the rates."""
    tables = replace(one.tables, shape="weight")
    return [
        tables.searched.complete({"client": dict(one.config.client), "policy": {"index_slope": slope}})
        for slope in (-1.0, -2.0)
    ]


def grid(setting: WorldSetting) -> dict[str, Way]:
    """Constants and falling tables whose best, picked on test, say what there is to gain."""
    profiles = Profiles.uniform(setting.cells)
    rate = Tables(setting.space, profiles, "rate")
    batch, epochs = setting.headroom_config
    found: dict[str, Way] = {}
    for lr in setting.rates:
        for slope in (0.0, *setting.slopes):
            client = {"lr": lr, "batch_size": batch, "epochs": epochs}
            config = rate.searched.complete({"client": client, "policy": {"index_slope": slope}})
            found[f"grid {lr:g} {slope:g}"] = rate.table(config)
    return found


def lived(world: FreshWorld, simulate: Callable[[FederatedData], Any], folder: Path) -> dict[str, Any]:
    """A world from its searches to its trainings: accuracy by way, in percent, None where it diverged."""
    explored = explore(world, simulate, folder)
    ways: Mapping[str, Way] = {**explored.ways, **grid(world.setting)}
    clients = world.clients
    labels = [clients.y[clients.train.rows(c)] for c in range(clients.clients - 1)]
    resolved = {name: _by_client(way, labels, clients.classes) for name, way in ways.items()}
    with simulate(clients) as federation:
        found = trainings(
            federation,
            resolved,
            rounds=world.setting.rounds,
            cohort=world.setting.cohort,
            model=world.setting.shape,
            seed=world.seed,
        )
    accuracy = {
        name: None if math.isnan(one["accuracy"]) else round(one["accuracy"], 3)
        for name, one in found.items()
    }
    return {"set": world.setting.data, "world": world.number, "accuracy": accuracy, "facts": explored.facts}


def _by_client(way: Way, labels: list[Any], classes: int | None) -> Way:
    """What a table has for each client: trainings with known hyperparameters can be stacked."""
    if isinstance(way, ReferenceTable) and isinstance(way, ClientSide):
        return [way.resolve(own, classes) for own in labels]
    return way
