"""A federation's data in memory that worker processes share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedhpo.data import FederatedData, Split
from fedhpo.data.lazy import Source, source_of
from fedhpo.workers.memory import SharedArray, SharedFile, share

_SPLITS = ("train", "validation", "test")
_EMPTY = np.empty(0, np.int64)
_NONE = Split(_EMPTY, _EMPTY)


def share_data(data: FederatedData) -> tuple[tuple[FederatedData, dict[str, SharedArray]], SharedFile]:
    """The data without its arrays, where these lie, and the file that holds them."""
    source = source_of(data)
    if source is not None:
        shared, file = share({"sizes": source.sizes})
        return (replace(data, x=_EMPTY, y=_EMPTY, train=_NONE, validation=_NONE, test=_NONE), shared), file
    arrays = {"x": data.x, "y": data.y}
    for name in _SPLITS:
        split: Split = getattr(data, name)
        arrays[f"{name}.indices"], arrays[f"{name}.offsets"] = split.indices, split.offsets
    shared, file = share(arrays)
    x, y = np.empty((0, *data.x.shape[1:]), data.x.dtype), np.empty(0, data.y.dtype)
    bare = replace(data, x=x, y=y, train=_NONE, validation=_NONE, test=_NONE, client_names=None)
    return (bare, shared), file


def open_data(
    bare: FederatedData, shared: dict[str, SharedArray], source: Source | None = None
) -> FederatedData:
    """The data with its arrays mapped read-only; lazily loaded clients come from `source`."""
    arrays = {name: array.open() for name, array in shared.items()}
    if source is not None:
        return replace(source, sizes=arrays["sizes"]).data()
    train, validation, test = (
        Split(arrays[f"{name}.indices"], arrays[f"{name}.offsets"]) for name in _SPLITS
    )
    return replace(bare, x=arrays["x"], y=arrays["y"], train=train, validation=validation, test=test)
