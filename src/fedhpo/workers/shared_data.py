"""A federation's data in memory that worker processes share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedhpo.data import FederatedData, Split
from fedhpo.workers.memory import SharedArray, SharedFile, share

_SPLITS = ("train", "validation", "test")


def share_data(data: FederatedData) -> tuple[tuple[FederatedData, dict[str, SharedArray]], SharedFile]:
    """The data without its arrays, where these lie, and the file that holds them."""
    arrays = {"x": data.x, "y": data.y}
    for name in _SPLITS:
        split: Split = getattr(data, name)
        arrays[f"{name}.indices"], arrays[f"{name}.offsets"] = split.indices, split.offsets
    shared, file = share(arrays)
    empty = Split(data.train.indices[:0], data.train.offsets[:0])
    x, y = np.empty((0, *data.x.shape[1:]), data.x.dtype), np.empty(0, data.y.dtype)
    bare = replace(data, x=x, y=y, train=empty, validation=empty, test=empty, client_names=None)
    return (bare, shared), file


def open_data(bare: FederatedData, shared: dict[str, SharedArray]) -> FederatedData:
    """The data with its arrays mapped read-only."""
    arrays = {name: array.open() for name, array in shared.items()}
    train, validation, test = (
        Split(arrays[f"{name}.indices"], arrays[f"{name}.offsets"]) for name in _SPLITS
    )
    return replace(bare, x=arrays["x"], y=arrays["y"], train=train, validation=validation, test=test)
