"""The part of the reproduction that can tell: worlds by number, as the plan says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fedhpo.data import FederatedData
from fedhpo.reproduce.fedtune.lab import Lab
from fedhpo.reproduce.fedtune.world_setting import WorldSetting
from fedhpo.reproduce.fedtune.worlds import FreshWorld, lived
from fedhpo.research.statistics import Plan

#: Worlds with the convolutional model of the other parts, on one set.
CNN_WORLDS = 4


def plan() -> Plan:
    """What is compared, over how many worlds."""
    return Plan.load(Path(__file__).with_name("plan.toml"))


def worlds(lab: Lab) -> list[dict[str, Any]]:
    """A row for each world of each set: what each way came to, and what the searches found."""
    planned = plan()
    count = lab.scale.worlds or max(claim.replicates for claim in planned.claims)
    numbers = range(planned.first_seed, planned.first_seed + count)
    return _rows(lab, lab.scale.world_sets, numbers, "world")


def cnn(lab: Lab) -> list[dict[str, Any]]:
    """A few worlds with the convolutional model."""
    first = plan().first_seed
    return _rows(lab, lab.scale.cnn_sets, range(first, first + CNN_WORLDS), "cnn")


def _rows(lab: Lab, sets: Mapping[str, WorldSetting], numbers: range, what: str) -> list[dict[str, Any]]:
    rows = []
    for name, setting in sets.items():
        for number in numbers:
            piece = f"{what}-{name}-{number}"
            folder = lab.pieces.folder / piece
            world = FreshWorld(setting, number)
            found = lab.pieces.get(piece, partial(lived, world, _simulate(lab, setting), folder))
            rows += [] if found is None else [{**found, "set": name}]
    return rows


def _simulate(lab: Lab, setting: WorldSetting) -> Callable[[FederatedData], Any]:
    from fedhpo.federations.simulate import simulate

    return partial(simulate, setting.model, workers=lab.workers)
