"""The paper's 24 cells, with small models and rates on a log scale: Figures 1a, 1b, 2c and 8.

In each of a few worlds a table of 24 cells is filled, scored on held-out rows and at the cells' own clients;
one config for all is tuned with as many simulations as two of the cells have, a table of fewer cells has some
of the whole one's, and each client is tuned by hand, alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.journal import Journal
from fedhpo.methods.fedtune import (
    Cells,
    CellTuner,
    ReferenceTable,
    Simulation,
    Simulator,
    fill_table,
    tune_cells,
)
from fedhpo.protocol.objective import Objective
from fedhpo.space.config import Config
from fedhpo_papers.fedtune.baselines import hand_tuned
from fedhpo_papers.fedtune.lab import Lab
from fedhpo_papers.fedtune.training import Way
from fedhpo_papers.fedtune.world_setting import WorldSetting
from fedhpo_papers.fedtune.worlds import FreshWorld, Simulate, trained
from fedhpo_papers.fedtune.worlds_part import plan, simulated

#: So many worlds; rates at equal ratios of hand tuning's grid, and rounds that a client trains alone.
WORLDS, HAND_RATES, ALONE = 4, 6, 10


def cells(lab: Lab) -> list[dict[str, Any]]:
    """A row for each way in each world."""
    first = plan().first_seed
    rows: list[dict[str, Any]] = []
    for name, setting in lab.scale.cells_sets.items():
        for number in range(first, first + (lab.scale.worlds or WORLDS)):
            done = [
                row for row in lab.earlier.get("cells", ()) if (row["set"], row["seed"]) == (name, number)
            ]
            if done:
                rows += map(dict, done)
                continue
            piece = f"cells-{name}-{number}"
            world, folder = FreshWorld(setting, number), lab.pieces.folder / piece
            found = lab.pieces.get(piece, partial(_world, world, simulated(lab, setting), folder))
            rows += [{"set": name, "seed": number, "way": way, **one} for way, one in (found or {}).items()]
    return rows


def _world(world: FreshWorld, simulate: Simulate, folder: Path) -> dict[str, Any]:
    setting = world.setting
    tables = {
        scored_on: fill_table(
            world.proxy,
            simulate,
            setting.space,
            cells=setting.cells,
            simulation=Simulation(5, setting.cell_rounds, scored_on),
            tuner=CellTuner("gp", setting.cell_steps, None),
            seed=world.seed,
            directory=folder / scored_on,
        )
        for scored_on in ("held-out", "own")
    }
    whole = tables["held-out"]
    by_hand = _by_hand(world, simulate)
    ways: dict[str, Way] = {"1 cell": _globally(world, simulate, folder).client}
    ways |= {f"{len(some)} cells": _fewer(whole, some) for some in _some(setting)}
    ways |= {"own clients": tables["own"], "hand": [config.client for config in by_hand]}
    found: dict[str, Any] = trained(world, ways, simulate)
    found["hand"]["rates"] = [config.client["lr"] for config in by_hand]
    found[f"{len(whole.cells)} cells"]["configs"] = [dict(config) for config in whole.configs]
    return found


def _some(setting: WorldSetting) -> list[Cells]:
    """The indices alone, at a middle quantity; the quantities alone, at a middle index; all cells."""
    indices, quantities = setting.indices, setting.quantities
    middle, usual = indices[len(indices) // 2], quantities[len(quantities) // 2]
    return [Cells(indices, (usual,)), Cells((middle,), quantities), setting.cells]


def _fewer(table: ReferenceTable, cells: Cells) -> ReferenceTable:
    places = [table.cells.profiles.index(profile) for profile in cells.profiles]
    return replace(table, cells=cells, configs=[table.configs[place] for place in places], scores=())


def _globally(world: FreshWorld, simulate: Simulate, folder: Path) -> Config:
    """One config for all, tuned on the simulated clients of all cells together."""
    setting = world.setting
    proxies = world.proxy.federation(setting.cells, 5, seed=world.seed)
    tuner = CellTuner("gp", 2 * setting.cell_steps, None, side_by_side=4)
    with simulate(proxies.data) as federation:
        everybody = [client for group in proxies.groups for client in group]
        simulator = _simulator(world, federation, [everybody], proxies.scorer)
        [search] = tune_cells(
            lambda asked: [one.score("held-out") for one in simulator.simulate(asked)],
            Cells((0.5,), (1,)),
            setting.space,
            tuner,
            seed=world.seed,
            journal=Journal(folder / "global.jsonl", {"steps": tuner.steps}),
            first=[setting.space.default()],
        )
    best = search.best(Objective())
    return setting.space.default() if best is None else best[0]


def _by_hand(world: FreshWorld, simulate: Simulate) -> list[Config]:
    """The best config of a grid for each client, alone, on the proxy set's held-out rows."""
    setting = world.setting
    configs = [
        setting.space.complete({"client": {"lr": round(rate, 4), "batch_size": batch, "epochs": 2}})
        for rate in np.geomspace(0.0125, 0.4, HAND_RATES).tolist()
        for batch in (4, 8, 16)
    ]
    data, scorer = world.with_scorer()
    with simulate(data) as federation:
        groups = [[client] for client in range(scorer)]
        simulator = replace(_simulator(world, federation, groups, scorer), rounds=ALONE, cohort=1)
        return hand_tuned(simulator, configs)


def _simulator(world: FreshWorld, federation: Any, groups: list[list[int]], scorer: Any) -> Simulator:
    setting = world.setting
    return Simulator(federation, groups, scorer, setting.cell_rounds, 5, model=setting.shape, seed=world.seed)
