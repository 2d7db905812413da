"""What a worker process does for the engine: tasks of local training, weights by shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedhpo.data import FederatedData
from fedhpo.workers.memory import Arena, Region, SharedArray, SharedFile
from fedhpo.workers.pool import Handler
from fedhpo.workers.shared_data import open_data

#: What a worker is sent: the task, regions and lengths of its start weights, region and shape of its output.
Packed = tuple[Any, Sequence[tuple[Region, int]], Region | None, tuple[int, int] | None]


def prepare(
    own: tuple[Any, ...], file: SharedFile, data: tuple[FederatedData, dict[str, SharedArray]]
) -> Handler[Packed]:
    """A worker's handler; torch is imported here, so that the parent is told if that fails."""
    import torch

    from fedhpo.engine.executor import Executor, Setup
    from fedhpo.engine.factory import GivenModel

    torch.set_num_threads(1)
    source, factory, *others = own
    executor = Executor(Setup(factory, open_data(*data, source), *others))
    if isinstance(factory, GivenModel):  # this process's own copy
        executor.frozen.adopt(factory.module)
    arena = Arena(file)

    def handle(packed: Packed) -> Any:
        task, starts, region, shape = packed
        output = None
        if region is not None and shape is not None:
            output = arena.vector(region, shape[0] * shape[1]).reshape(shape)
        return executor.run(task, [arena.vector(start, size) for start, size in starts], output)

    return handle
