"""A trial's state as one safetensors file: arrays, and facts as JSON in the header. Never pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from fedhpo.federation.protocol import TrialState


def write_state(path: Path, state: TrialState) -> None:
    """Write aside, force to disk, rename: the file is whole or not there."""
    aside = path.with_name(path.name + ".part")
    arrays = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
    save_file(arrays, str(aside), metadata={"facts": json.dumps(dict(state.facts))})
    descriptor = os.open(aside, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(aside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_state(path: Path) -> TrialState:
    """The state that `write_state` wrote."""
    with safe_open(str(path), framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return TrialState(arrays, json.loads(file.metadata()["facts"]))
