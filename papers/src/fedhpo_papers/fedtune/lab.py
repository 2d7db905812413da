"""What the experiments share: sets as they are read, pools as they are simulated, tables, trainings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.data import FederatedData
from fedhpo.methods.fedtune import CellTuner, ReferenceTable, Simulator
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.objective import Objective
from fedhpo.space.config import Config
from fedhpo_papers.fedtune.baselines import hand_tuned
from fedhpo_papers.fedtune.pieces import Pieces
from fedhpo_papers.fedtune.pools import Pool, simulated_pool
from fedhpo_papers.fedtune.sets import SCALES, Scale, Setting, World
from fedhpo_papers.fedtune.training import Way, train

#: FedAdagrad's own learning rate at the server.
ADAGRAD = {"lr": 0.03}


@dataclass(eq=False)
class Lab:
    """What the parts share: sets as they are read, pools as they are simulated."""

    scale: Scale
    pieces: Pieces
    workers: int | None = None
    #: Worlds of an earlier page under the same settings, by part: they are not run again.
    earlier: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._worlds: dict[str, World] = {}
        self._pools: dict[str, Pool] = {}

    @classmethod
    def at(
        cls,
        scale: str,
        folder: Path,
        say: Callable[[str], None],
        workers: int | None,
        kept_only: bool = False,
        earlier: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> Lab:
        """For a scale by name."""
        return cls(SCALES[scale], Pieces(folder, say, kept_only), workers, earlier or {})

    def world(self, name: str) -> World:
        """A set."""
        if name not in self._worlds:
            self._worlds = {name: World.of(self.scale.sets[name])}  # one at a time: images are large
        return self._worlds[name]

    def pool(self, name: str) -> Pool:
        """Its pool."""
        if name not in self._pools:
            path = self.pieces.folder / f"pool-{name}.jsonl"
            world = self.world(name)
            self._pools[name] = simulated_pool(world, self.scale, self.federation(world.setting), path)
        return self._pools[name]

    def federation(self, setting: Setting, server: str = "fedavg") -> Callable[[FederatedData], Federation]:
        """How simulated and real clients of a set train."""
        from fedhpo.federations.simulate import simulate

        return lambda data: simulate(setting.model, data, server=server, workers=self.workers)

    @cached_property
    def tuner(self) -> CellTuner:
        """FedTune's: no patience, since the paper's step counts do not fit it."""
        return CellTuner("gp", self.scale.steps, None)

    @property
    def hardest(self) -> str:
        """The set that the paper studies most closely: FEMNIST."""
        return list(self.scale.sets)[-1]

    def table(self, name: str, seed: int, scored_on: str = "held-out") -> ReferenceTable:
        """FedTune's table of a set."""
        pool = self.pool(name)
        return pool.table(pool.replay(self.tuner, seed, scored_on))

    def globally(self, name: str, seed: int) -> Config:
        """The config of global tuning: as many steps on the mixture as FedTune has in all cells."""
        pool = self.pool(name)
        cells = len(pool.setting.cells)
        tuner = replace(self.tuner, steps=min(len(pool.configs), cells * self.scale.steps))
        [search] = pool.replay(tuner, seed, cells=[cells])
        best = search.best(Objective())
        return pool.setting.space.default() if best is None else best[0]

    def by_hand(self, name: str) -> list[Config]:
        """The config of each client by hand tuning: a grid, each client alone."""
        found = self.pieces.get(f"hand-{name}", lambda: self._by_hand(name))
        return [Config.from_dict(config) for config in found["configs"]]

    def _by_hand(self, name: str) -> dict[str, Any]:
        world = self.world(name)
        setting = world.setting
        data, scorer = world.with_scorer()
        configs = hand_grid(setting, self.scale.hand_points)
        with self.federation(setting)(data) as federation:
            groups = [[client] for client in range(scorer)]
            simulator = Simulator(federation, groups, scorer, self.scale.alone_rounds, 1, model=setting.shape)
            best = hand_tuned(simulator, configs)
        return {"configs": [config.to_dict() for config in best]}

    def trained(
        self, name: str, partition: str, seed: int, ways: Mapping[str, Way], server: str = "fedavg"
    ) -> dict[str, Any]:
        """Trainings at the clients of a set, in all these ways."""
        setting = self.scale.sets[name]
        more = ADAGRAD if server == "fedadagrad" else {}
        with self.federation(setting, server)(self.world(name).clients(partition)) as federation:
            return train(federation, ways, setting, seed, more)


def hand_grid(setting: Setting, points: int) -> list[Config]:
    """Learning rates at equal ratios from 0.002 to 0.4, all batch sizes, the middle number of epochs."""
    space = setting.space
    rates = [round(0.002 * max(1, round(rate / 0.002)), 3) for rate in np.geomspace(0.002, 0.4, points)]
    return [
        space.complete({"client": {"lr": rate, "batch_size": batch, "epochs": setting.epochs[1]}})
        for rate in rates
        for batch in (4, 8, 16)
    ]
