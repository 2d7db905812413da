"""The part of the reproduction that can tell: worlds by number, as the plan says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fedhpo.data import FederatedData
from fedhpo.research.statistics import Plan
from fedhpo_papers.fedtune.lab import Lab
from fedhpo_papers.fedtune.world_setting import WorldSetting
from fedhpo_papers.fedtune.worlds import FreshWorld, controlled, lived

#: Worlds with the convolutional model of the other parts, on one set.
CNN_WORLDS = 4
#: What the plan compares in the first worlds of each set only.
CONTROLS = ("weights", "fednova", "cells")


def plan() -> Plan:
    """What is compared, over how many worlds."""
    return Plan.load(Path(__file__).with_name("plan.toml"))


def worlds(lab: Lab) -> list[dict[str, Any]]:
    """A row for each world of each set: what each way came to, and what the searches found.

    One world of each set in turn, its controls after them, so that what is done by any time is balanced.
    """
    planned = plan()
    count = lab.scale.worlds or max(claim.replicates for claim in planned.claims)
    few = max(one.replicates for one in planned.claims if {one.first, one.second} & {*CONTROLS})
    rows: list[dict[str, Any]] = []
    for place in range(count):
        number = planned.first_seed + place
        found = _rows(lab, lab.scale.world_sets, range(number, number + 1), "worlds")
        rows += [_with_controls(lab, row) for row in found] if place < few else found
    return rows


def cnn(lab: Lab) -> list[dict[str, Any]]:
    """A few worlds with the convolutional model."""
    first = plan().first_seed
    return _rows(lab, lab.scale.cnn_sets, range(first, first + CNN_WORLDS), "cnn")


def _rows(lab: Lab, sets: Mapping[str, WorldSetting], numbers: range, part: str) -> list[dict[str, Any]]:
    done = {(row["set"], row["world"]): row for row in lab.earlier.get(part, ())}
    rows = []
    for number in numbers:
        for name, setting in sets.items():
            world, simulate = FreshWorld(setting, number), simulated(lab, setting)
            piece = f"{part}-{name}-{number}"
            found = done.get((name, number))
            if found is None:
                found = lab.pieces.get(piece, partial(lived, world, simulate, lab.pieces.folder / piece))
            rows += [] if found is None else [{**found, "set": name}]
    return rows


def _with_controls(lab: Lab, row: dict[str, Any]) -> dict[str, Any]:
    """The row with what the controls came to, where they are done."""
    if set(CONTROLS) <= set(row["accuracy"]):
        return row
    setting = lab.scale.world_sets[row["set"]]
    piece = f"controls-{row['set']}-{row['world']}"
    world, folder = FreshWorld(setting, row["world"]), lab.pieces.folder / piece
    found = lab.pieces.get(piece, partial(controlled, world, row, simulated(lab, setting), folder))
    return row if found is None else {**row, **{key: {**row[key], **found[key]} for key in found}}


def simulated(lab: Lab, setting: WorldSetting) -> Callable[[FederatedData], Any]:
    """How the clients of a world train."""
    from fedhpo.federations.simulate import simulate

    return partial(simulate, setting.model, workers=lab.workers)
