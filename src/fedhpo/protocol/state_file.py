"""A trial's state as one safetensors file: arrays, and facts as JSON in the header. Never pickle."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from fedhpo.protocol.federation import TrialState


def write_state(path: Path, state: TrialState) -> bytes:
    """Write aside, force to disk, rename: the file is whole or not there. Returns what it holds."""
    aside = path.with_name(path.name + ".part")
    arrays = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
    data: bytes = save(arrays, metadata={"facts": json.dumps(dict(state.facts))})
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return data


def read_state(path: Path) -> TrialState:
    """The state that `write_state` wrote."""
    return parse_state(path.read_bytes())


def parse_state(data: bytes) -> TrialState:
    """The state in a file's content."""
    arrays = load(data)
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    return TrialState(arrays, json.loads(header["__metadata__"]["facts"]))
