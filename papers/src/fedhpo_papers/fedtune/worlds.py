"""Worlds: fresh draws of everything, so that what is compared is the method and not one deal of the data.

In each world the test rows, the public rows, the clients' rows, the simulations and the trainings are drawn
anew. Images become their first principal components, fitted on the public rows, and the model is a small
MLP: so a world takes half a minute of a core, and two dozen can tell one way from another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
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
from fedhpo.methods.fedtune.mixture import Mixture
from fedhpo.methods.fedtune.profiles import Profiles
from fedhpo.methods.fedtune.shapes import Shape, Tables
from fedhpo.methods.fedtune.tuner import CellSearch
from fedhpo.protocol.federation import ClientSide
from fedhpo.space.config import Config
from fedhpo_papers.fedtune.sets import balanced
from fedhpo_papers.fedtune.training import Way, trainings
from fedhpo_papers.fedtune.world_setting import WorldSetting


@lru_cache(maxsize=3)
def _read(data: str) -> Samples:
    """A set, read once for all of its worlds."""
    return DATASETS[data].read(Request(None, 0))


@dataclass(frozen=True, eq=False)
class FreshWorld:
    """One world of a set: everything drawn anew by its number."""

    setting: WorldSetting
    number: int

    @property
    def _samples(self) -> Samples:
        return _read(self.setting.data)

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
        from sklearn.utils.extmath import randomized_svd

        x = self._flat(self._rows[1])
        mean = x.mean(axis=0)
        # Subspace iteration: a few seconds quicker than all directions of images in colour.
        _, _, directions = randomized_svd(
            x - mean, self.setting.components, n_oversamples=20, n_iter=8, random_state=self.number
        )
        first = directions.T
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
        return self._data(self._dealt, self._rows[0])

    def with_scorer(self) -> tuple[FederatedData, int]:
        """The clients, and one that validates on the proxy set's held-out rows: for hand tuning."""
        held = np.unique(self._rows[1])[self.proxy.scored]
        data = self._data(self._dealt, held)
        return replace(data, validation=data.test, test=data.validation), data.clients - 1

    @cached_property
    def _dealt(self) -> list[Integers]:
        """The rows of each client."""
        private, setting = self._rows[2], self.setting
        deal = HeterogeneityIndex(setting.clients, setting.indices, setting.quantities, replace=True)
        dealt = deal(self._samples.y[private], stream(self.number, "clients"))
        return [private[dealt.rows(c)] for c in range(dealt.clients)]

    @property
    def seed(self) -> int:
        """Of its simulations and trainings."""
        return derive(self.number, "simulations")


#: How the simulated clients of a data set train.
Simulate = Callable[[FederatedData], Any]


def lived(world: FreshWorld, simulate: Simulate, folder: Path) -> dict[str, Any]:
    """One config for all and a table, each searched in the mixture, then trained; and the headroom's grid.

    Accuracy is by way, in percent, None where training diverged.
    """
    default = world.setting.space.default()
    with _searching(world, simulate, folder) as mixture:
        one = mixture.search(_tables(world.setting, "constant"), world.seed)
        found = mixture.search(_tables(world.setting, "rate"), world.seed, one.search)
        capped = mixture.capped(found, one.tables)
        compared = mixture.compared(capped, one, default)
        half = mixture.half(one.search)
    ways: dict[str, Way] = {"own": default.client, "global": one.table, "mixture": capped.table}
    accuracy = _accuracies(world, {**ways, **grid(world.setting)}, simulate)
    accuracy["guarded"] = accuracy["mixture" if compared["kept"] else "global"]
    facts = {
        "global": one.config.to_dict(),
        "mixture": capped.config.to_dict(),
        "capped": capped.config != found.config,
        "compared": compared,
        # What the searches of the controls share.
        "half": [[config.to_dict(), *map(_known, numbers)] for config, *numbers in half],
    }
    return {"set": world.setting.data, "world": world.number, "accuracy": accuracy, "facts": facts}


def controlled(world: FreshWorld, row: Mapping[str, Any], simulate: Simulate, folder: Path) -> dict[str, Any]:
    """The controls of a world that was lived: falling weights, FedNova, and the paper's way, cells alone.

    Weights share the first half of the search of one config for all, as the table does; FedNova has a search
    of its own.
    """
    setting = world.setting
    before = CellSearch(0)
    for config, score, error in row["facts"]["half"]:
        before.add(Config.from_dict(config), _number(score), _number(error))
    with _searching(world, simulate, folder) as mixture:
        weight = mixture.search(_tables(setting, "weight"), world.seed, before)
        nova = mixture.search(_tables(setting, "fednova"), world.seed)
    cells = fill_table(
        world.proxy,
        simulate,
        setting.listed,
        cells=setting.cells,
        simulation=Simulation(5, setting.cell_rounds),
        tuner=CellTuner("gp", setting.cell_steps, None, side_by_side=2),
        seed=world.seed,
        directory=folder / "cells",
    )
    ways: dict[str, Way] = {"weights": weight.table, "fednova": nova.table, "cells": cells}
    facts = {
        "weights": weight.config.to_dict(),
        "fednova": nova.config.to_dict(),
        "cells": [dict(config) for config in cells.configs],
    }
    return {"accuracy": _accuracies(world, ways, simulate), "facts": facts}


@contextmanager
def _searching(world: FreshWorld, simulate: Simulate, folder: Path) -> Iterator[Mixture]:
    """The searches of a world, each resumable."""
    setting = world.setting
    profiles, budget = Profiles.uniform(setting.cells), setting.budget
    proxies = world.proxy.mixture(profiles, budget.clients, budget.groups, seed=world.seed)
    journal = Journal(folder / "mixture.jsonl", {"world": world.number, "setting": asdict(setting)})
    with simulate(proxies.data) as federation:
        simulator = Simulator(
            federation,
            proxies.groups,
            proxies.scorer,
            budget.rounds,
            budget.cohort,
            model=setting.shape,
            seed=world.seed,
            last=budget.scored_rounds,
            resolve=proxies.resolve,
        )
        yield Mixture(simulator, budget, journal)


def _tables(setting: WorldSetting, shape: Shape) -> Tables:
    return Tables(setting.space, Profiles.uniform(setting.cells), shape)


def grid(setting: WorldSetting) -> dict[str, Way]:
    """Constants and falling tables whose best, picked on test, say what there is to gain."""
    rate = _tables(setting, "rate")
    batch, epochs = setting.headroom_config
    found: dict[str, Way] = {}
    for lr in setting.rates:
        for slope in (0.0, *setting.slopes):
            client = {"lr": lr, "batch_size": batch, "epochs": epochs}
            config = rate.searched.complete({"client": client, "policy": {"index_slope": slope}})
            found[f"grid {lr:g} {slope:g}"] = rate.table(config)
    return found


def trained(world: FreshWorld, ways: Mapping[str, Way], simulate: Simulate) -> dict[str, dict[str, Any]]:
    """Trainings at the clients, accuracy None where one diverged; a way comes to the same in any company."""
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
            last=world.setting.last,
        )
    return {name: {**one, "accuracy": _known(one["accuracy"], 3)} for name, one in found.items()}


def _accuracies(world: FreshWorld, ways: Mapping[str, Way], simulate: Simulate) -> dict[str, float | None]:
    return {name: one["accuracy"] for name, one in trained(world, ways, simulate).items()}


def _by_client(way: Way, labels: list[Any], classes: int | None) -> Way:
    """What a table has for each client: trainings with known hyperparameters can be stacked."""
    if isinstance(way, ReferenceTable) and isinstance(way, ClientSide):
        return [way.resolve(own, classes) for own in labels]
    return way


def _known(value: float, digits: int = 6) -> float | None:
    return None if math.isnan(value) else round(value, digits)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
