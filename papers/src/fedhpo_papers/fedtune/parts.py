"""The experiments on tuners and trainings: each gives rows for tables and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedhpo.core.journal import Journal
from fedhpo.methods.fedtune import (
    Cells,
    CellSearch,
    CellTuner,
    ReferenceTable,
    Simulation,
    Simulator,
    fill_table,
    tune_cells,
)
from fedhpo.protocol.objective import Objective
from fedhpo.space.config import Config
from fedhpo_papers.fedtune.baselines import Quadratic, iterations_by_hand, iterations_globally
from fedhpo_papers.fedtune.cells_part import cells
from fedhpo_papers.fedtune.lab import Lab, hand_grid
from fedhpo_papers.fedtune.pools import Pool, steps_until
from fedhpo_papers.fedtune.rates import figure_2, table_2
from fedhpo_papers.fedtune.training import Way
from fedhpo_papers.fedtune.worlds_part import cnn, worlds

#: Each set's table comes from the next one (Figure 6).
TRANSFERRED = {"fashion_mnist": "cifar10", "cifar10": "femnist", "femnist": "fashion_mnist"}
TUNERS = ("gp", "gp warm", "random", "grid")
#: Within so much of the best of a cell a tuner is done.
NEAR = 0.005


def figure_1(lab: Lab) -> list[dict[str, Any]]:
    """Tuning iterations (local trainings) by the number of clients; those of FedTune are the server's own."""
    scale = lab.scale
    setting = scale.sets[lab.hardest]
    simulated = scale.steps * len(setting.cells) * scale.simulated_rounds * scale.simulated_clients
    configs = len(hand_grid(setting, scale.hand_points))
    return [
        {
            "clients": clients,
            "hand": iterations_by_hand(clients, configs, scale.alone_rounds),
            "global, at the clients": iterations_globally(clients, configs),
            "global, simulated": simulated,
            "fedtune, simulated": simulated,
            "transferred table": 0,
            "default": 0,
        }
        for clients in (10, 100, 1000)
    ]


def table_1(lab: Lab) -> list[dict[str, Any]]:
    """Global, FedTune and hand tuning; also the default, tables by other means, and the regression."""
    rows: list[dict[str, Any]] = []
    for name in lab.scale.sets:
        for seed in range(lab.scale.seeds):
            found = lab.pieces.get(f"table1-{name}-{seed}", partial(_all_ways, lab, name, seed))
            rows += [{"set": name, "seed": seed, "way": way, **one} for way, one in found.items()]
    return rows


def _all_ways(lab: Lab, name: str, seed: int) -> dict[str, Any]:
    table, globally = lab.table(name, seed), lab.globally(name, seed)
    ways: dict[str, Way] = {
        "default": lab.scale.sets[name].space.default().client,
        "global": globally.client,
        "fedtune": table,
        "interpolated": replace(table, look_up="interpolated"),
        "own clients": lab.table(name, seed, "own"),
        "transferred": lab.table(TRANSFERRED[name], seed),
        "regression": _regression(table, globally),
        "hand": [config.client for config in lab.by_hand(name)],
    }
    return lab.trained(name, "index", seed, ways)


def _regression(table: ReferenceTable, globally: Config) -> Quadratic:
    """The table's learning rates over the index, all quantities together; the rest as in global tuning."""
    profiles = table.cells.profiles
    points = [(index, float(c["lr"])) for (index, _), c in zip(profiles, table.configs, strict=True)]
    rest = {key: value for key, value in globally.client.items() if key != "lr"}
    return Quadratic.through(points, rest, 0.002, 0.8)


def figure_5(lab: Lab) -> list[dict[str, Any]]:
    """Steps until a tuner is near the best of a cell's pool, and how far behind it is on the way."""
    rows: list[dict[str, Any]] = []
    for name in lab.scale.sets:
        pool = lab.pool(name)
        for tuner in TUNERS:
            # A grid has one order only.
            for seed in range(1 if tuner == "grid" else lab.scale.tuner_seeds):
                piece = f"figure5-{name}-{tuner.replace(' ', '-')}-{seed}"
                found = lab.pieces.get(piece, partial(_replayed, pool, tuner, seed))
                rows += [{"set": name, "tuner": tuner, "seed": seed, **one} for one in found]
    return rows


def _replayed(pool: Pool, tuner: str, seed: int) -> list[dict[str, Any]]:
    sampler, _, warm = tuner.partition(" ")
    searches = pool.replay(CellTuner(sampler, len(pool.configs), None, warm_start=bool(warm)), seed)
    return [_progress(search, float(np.nanmax(pool.held_out[search.cell]))) for search in searches]


def _progress(search: CellSearch, best: float) -> dict[str, Any]:
    """Steps until near the best, with and without the paper's stopping rule; points behind it by step."""
    ranks = [math.inf if math.isnan(score) else -score for score in search.scores]
    stopped = next(
        (n for n in range(1, len(ranks)) if CellTuner(steps=len(ranks)).stops(ranks[:n])), len(ranks)
    )
    behind = [min(100.0, 100 * (best + rank)) for rank in np.minimum.accumulate(ranks)]
    return {
        "cell": search.cell,
        "steps": steps_until(search, best - NEAR),
        "stopped": stopped,
        "behind_then": behind[stopped - 1],
        "behind": [round(value, 3) for value in behind],
    }


def figure_6(lab: Lab) -> list[dict[str, Any]]:
    """Gaussian and Poisson federations: global tuning against tables that are filled by these measures."""
    rows: list[dict[str, Any]] = []
    for name in lab.scale.sets:
        for skew in ("gaussian", "poisson"):
            for seed in range(lab.scale.seeds):
                found = lab.pieces.get(
                    f"figure6-{name}-{skew}-{seed}", partial(_skewed, lab, name, skew, seed)
                )
                rows += [
                    {"set": name, "skew": skew, "seed": seed, "way": w, **one} for w, one in found.items()
                ]
    return rows


def _skewed(lab: Lab, name: str, skew: str, seed: int) -> dict[str, Any]:
    filled = lab.pieces.get(f"table-{name}-{skew}", partial(_filled, lab, name, skew))
    ways: dict[str, Way] = {
        "global": Config.from_dict(filled["global"]).client,
        "fedtune": ReferenceTable.from_dict(filled["table"]),
    }
    return lab.trained(name, skew, seed, ways)


def _filled(lab: Lab, name: str, measure: str) -> dict[str, Any]:
    """A table by another measure, and the config of global tuning on the same simulated clients."""
    world, scale = lab.world(name), lab.scale
    setting, folder = world.setting, lab.pieces.folder / f"cells-{name}-{measure}"
    table = fill_table(
        world.proxy,
        lab.federation(setting),
        setting.space,
        cells=setting.cells,
        simulation=Simulation(scale.simulated_clients, scale.simulated_rounds, measure=measure),
        tuner=CellTuner("gp", scale.live_steps, None),
        directory=folder,
    )
    proxies = world.proxy.federation(setting.cells, scale.simulated_clients, measure)
    tuner = CellTuner("gp", scale.live_steps * len(setting.cells), None)
    with lab.federation(setting)(proxies.data) as federation:
        simulator = Simulator(
            federation,
            [[client for group in proxies.groups for client in group]],
            proxies.scorer,
            scale.simulated_rounds,
            scale.simulated_clients,
            model=setting.shape,
        )
        [search] = tune_cells(
            lambda asked: [one.score("held-out") for one in simulator.simulate(asked)],
            Cells((0.5,), (1,)),
            setting.space,
            tuner,
            journal=Journal(folder / "global.jsonl", {"steps": tuner.steps}),
            first=[setting.space.default()],
        )
    best = search.best(Objective())
    config = setting.space.default() if best is None else best[0]
    return {"table": table.to_dict(), "global": config.to_dict()}


def figure_7(lab: Lab) -> list[dict[str, Any]]:
    """The natural partition under FedAvg, and FedAdagrad at the server."""
    name = lab.hardest
    rows: list[dict[str, Any]] = []
    for case in ("natural", "fedadagrad"):
        for seed in range(lab.scale.seeds):
            found = lab.pieces.get(f"figure7-{case}-{seed}", partial(_compatible, lab, case, seed))
            rows += [{"set": name, "case": case, "seed": seed, "way": w, **one} for w, one in found.items()]
    return rows


def _compatible(lab: Lab, case: str, seed: int) -> dict[str, Any]:
    name = lab.hardest
    ways: dict[str, Way] = {"global": lab.globally(name, seed).client, "fedtune": lab.table(name, seed)}
    if case == "fedadagrad":
        return lab.trained(name, "index", seed, ways, "fedadagrad")
    grouped = lab.world(name).samples.groups is not None
    return lab.trained(name, "natural" if grouped else "index", seed, ways)


def figure_8(lab: Lab) -> list[dict[str, Any]]:
    """Accuracy and search space by the number of cells."""
    setting = lab.scale.sets[lab.hardest]
    rows: list[dict[str, Any]] = []
    for seed in range(lab.scale.seeds):
        found = lab.pieces.get(f"figure8-{seed}", partial(_by_cells, lab, seed))
        rows += [
            {"cells": int(count), "space": int(count) * int(setting.space.size), "seed": seed, **one}
            for count, one in found.items()
        ]
    return rows


def _by_cells(lab: Lab, seed: int) -> dict[str, Any]:
    """One cell is global tuning; fewer cells are some of the whole table's."""
    name = lab.hardest
    pool, table, setting = lab.pool(name), lab.table(name, seed), lab.scale.sets[name]
    middle = setting.indices[len(setting.indices) // 2]
    some = (
        Cells((middle,), setting.quantities),
        Cells(setting.indices, setting.quantities[-1:]),
        setting.cells,
    )
    ways: dict[str, Way] = {"1": lab.globally(name, seed).client}
    ways |= {str(len(cells)): pool.sub_table(table, cells) for cells in some}
    return lab.trained(name, "index", seed, ways)


#: The parts by name, in the order in which they are run.
PARTS: Mapping[str, Callable[[Lab], list[dict[str, Any]]]] = {
    "worlds": worlds,
    "cnn": cnn,
    "cells": cells,
    "figure1": figure_1,
    "figure5": figure_5,
    "table1": table_1,
    "figure6": figure_6,
    "figure7": figure_7,
    "figure8": figure_8,
    "table2": table_2,
    "figure2": figure_2,
}
