"""The main function of a worker process."""

from __future__ import annotations

import contextlib
import ctypes
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo._where import in_words
from fedhpo.data import FederatedData, Split
from fedhpo.engine.memory import Arena, SharedArray, SharedFile, share

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Exit code of a worker whose main script has no main guard.
UNGUARDED = 77

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


def main(
    pipe: Connection, file: SharedFile, code: bytes, data: tuple[FederatedData, dict[str, SharedArray]]
) -> None:
    """Receive tasks until the parent goes."""
    keep_freed_memory()
    try:
        import torch

        from fedhpo.engine.executor import Executor, Setup

        torch.set_num_threads(1)
        factory, loss, train, device = pickle.loads(code)  # our own parent's
        executor = Executor(Setup(factory, open_data(*data), loss, train, device))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send(None)
    arena = Arena(file)
    while True:
        try:
            ticket, (packed, starts, region, shape) = pipe.recv()
        except (EOFError, OSError):
            return
        value: Any = None
        failure = ""
        try:
            output = None if region is None else arena.vector(region, shape[0] * shape[1]).reshape(shape)
            vectors = [arena.vector(start, size) for start, size in starts]
            value = executor.run(pickle.loads(packed), vectors, output)
        except Exception as error:
            failure = in_words(error)
        try:
            pipe.send((ticket, value, failure))
        except OSError:
            return


def keep_freed_memory() -> None:
    """Keep glibc from giving memory back after every batch: page faults cost up to 1.4x on an LSTM."""
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(trim_threshold, 1 << 25)
        libc.mallopt(mmap_threshold, 1 << 25)
