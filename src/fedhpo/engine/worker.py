"""The main function of a worker process."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from fedhpo.core.user_code import in_words
from fedhpo.data import FederatedData
from fedhpo.workers.memory import Arena, SharedArray, SharedFile
from fedhpo.workers.shared_data import open_data
from fedhpo.workers.spawn import keep_freed_memory

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def main(
    pipe: Connection, file: SharedFile, code: bytes, data: tuple[FederatedData, dict[str, SharedArray]]
) -> None:
    """Receive tasks until the parent goes."""
    keep_freed_memory()
    try:
        import torch

        from fedhpo.engine.executor import Executor, Setup

        torch.set_num_threads(1)
        factory, *others = pickle.loads(code)  # our own parent's
        executor = Executor(Setup(factory, open_data(*data), *others))
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
