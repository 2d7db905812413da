"""Workers that do tasks of local training: processes, threads, or none.

All of them have the same few methods. Which one does the work never changes a result: every job has
its own random stream, and whoever collects results adds them up in the order of the work.
"""

from __future__ import annotations

import contextlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedhpo.core.streams import torch_generator
from fedhpo.core.vectors import Vector
from fedhpo.data.lazy import source_of
from fedhpo.engine.device import generator_kept
from fedhpo.engine.executor import Executor, Setup, Shares, Task, TrainTask
from fedhpo.engine.worker import Packed, prepare
from fedhpo.protocol.reasons import Reason
from fedhpo.workers.memory import Arena, Region, SharedFile
from fedhpo.workers.pool import Handler, Inline, Threads
from fedhpo.workers.pool import Pool as Workers
from fedhpo.workers.processes import Processes, WorkersUnavailable, pickled
from fedhpo.workers.shared_data import share_data


@dataclass(eq=False)
class Order:
    """A task on its way: the start weights it needs, and the shape of its output, if it has one.

    `parts` are the ends of other orders whose outputs it adds up. A `kept` output may stay where it was made:
    it becomes a part of another order, and is not read here. `seconds` are nominal (`fedhpo.engine.effort`).
    """

    task: Task
    starts: Sequence[Vector]
    output: tuple[int, int] | None = None
    parts: Sequence[Done] = ()
    kept: bool = False
    seconds: float = 0.0

    @property
    def vectors(self) -> list[Vector]:
        """What this process has to send along."""
        return [*self.starts, *(part.place for part in self.parts if isinstance(part.place, np.ndarray))]

    @property
    def shares(self) -> Shares | None:
        """To what sums the task adds, if it does."""
        return self.task.shares if isinstance(self.task, TrainTask) else None


@dataclass
class Done:
    """A task's end: its value and output, or why it failed. `release` the output after use.

    `place` is where an output of one row lies, as its pool knows it: a vector, or a reference to one.
    """

    order: Order
    value: Any = None
    output: NDArray[np.float32] | None = None
    failure: Reason | None = None
    release: Callable[[], None] = lambda: None
    place: Any = None


class Pool(ABC):
    """Does orders, in whatever order they end."""

    kind: str
    workers: int

    @property
    def pids(self) -> list[int]:
        """The worker processes' ids; empty if there are none on this machine."""
        return []

    @abstractmethod
    def submit(self, order: Order) -> None:
        """Take an order. What adds up others' outputs is done first: they wait in memory for it."""

    @abstractmethod
    def next(self) -> Done:
        """Wait for an order to end."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers."""


class LocalPool(Pool):
    """Workers in the memory of this process: the calling thread, or threads."""

    def __init__(self, setup: Setup, threads: int) -> None:
        self._workers: Workers[Order]
        if threads:
            self._workers = Threads(threads, partial(_prepare_thread, setup))
        else:
            self._workers = Inline(partial(_do, Executor(setup)), around=partial(_one_thread, setup.device))
        self.kind, self.workers = self._workers.kind, self._workers.workers

    def submit(self, order: Order) -> None:
        self._workers.submit(order, first=bool(order.parts))

    def next(self) -> Done:
        ended = self._workers.next()
        assert ended is not None  # it waits as long as it takes
        if ended.failure:
            return Done(ended.job, failure=ended.failure)
        value, output = ended.value
        return Done(ended.job, value, output, place=None if output is None else output[0])

    def close(self) -> None:
        self._workers.close()


def _do(executor: Executor, order: Order) -> tuple[Any, NDArray[np.float32] | None]:
    """An order's value and its output."""
    output = None if order.output is None else np.zeros(order.output, np.float32)
    return executor.run(order.task, order.vectors, output), output


@contextlib.contextmanager
def _one_thread(device: str) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch_generator(), generator_kept(device):
            yield
    finally:
        torch.set_num_threads(threads)


def _prepare_thread(setup: Setup) -> Handler[Order]:
    torch.set_num_threads(1)
    executor = Executor(setup)

    def handle(order: Order) -> tuple[Any, NDArray[np.float32] | None]:
        # Dropout draws from torch's global generator: one such training at a time.
        with torch_generator() if executor.is_random(order.task) else contextlib.nullcontext():
            return _do(executor, order)

    return handle


class _Regions:
    """Where weights and outputs of the orders lie that workers hold."""

    def __init__(self) -> None:
        self.arena = Arena(SharedFile.in_memory())
        self._starts: dict[int, tuple[Vector, Region, int]] = {}
        self._outputs: dict[Order, Region | None] = {}

    def place(self, order: Order) -> Packed:
        """The order as it is sent to a worker."""
        starts = [(self._start(vector), len(vector)) for vector in order.starts]
        for part in order.parts:
            here = isinstance(part.place, np.ndarray)
            assert order.output is not None
            starts.append((self._start(part.place) if here else part.place, order.output[1]))
        output = self.arena.allocate(order.output[0] * order.output[1]) if order.output else None
        self._outputs[order] = output
        return order.task, starts, output, order.output

    def _start(self, vector: Vector) -> Region:
        """The region that holds these weights; jobs of one round share it."""
        _, region, users = self._starts.get(id(vector), (vector, None, 0))
        if region is None:
            region = self.arena.allocate(len(vector))
            self.arena.vector(region, len(vector))[:] = vector
        self._starts[id(vector)] = vector, region, users + 1
        return region

    def drop(self, order: Order) -> None:
        """Take back what was placed."""
        output = self.keep_output(order)
        if output is not None:
            self.arena.release(output)

    def keep_output(self, order: Order) -> Region | None:
        """Take back all but the output, which is still to be read."""
        if order not in self._outputs:
            return None
        for vector in order.vectors:
            _, region, users = self._starts.pop(id(vector))
            if users > 1:
                self._starts[id(vector)] = vector, region, users - 1
            else:
                self.arena.release(region)
        return self._outputs.pop(order)


class ProcessPool(Pool):
    """One single-threaded process per worker, spawned; weights travel through an `Arena`.

    Raises `WorkersUnavailable` where the model cannot be imported by a worker.
    """

    kind = "processes"

    def __init__(self, setup: Setup, workers: int) -> None:
        self.workers = workers
        source = source_of(setup.data)
        bare = None if source is None else replace(source, sizes=source.sizes[:0])  # sizes are shared
        own = pickled(
            (bare, setup.factory, setup.loss, setup.train, setup.device, setup.metrics, setup.collate)
        )
        data, self._file = share_data(setup.data)
        self._regions = regions = _Regions()
        # The processes must not refer to this pool, so that they end when nobody refers to it any more.
        try:
            self._processes = Processes(
                workers, prepare, own, regions.arena.file, data, pack=regions.place, drop=regions.drop
            )
        except BaseException:
            self._close_files()
            raise

    @property
    def pids(self) -> list[int]:
        return self._processes.pids

    def submit(self, order: Order) -> None:
        self._processes.submit(order, first=bool(order.parts))

    def next(self) -> Done:
        ended = self._processes.next()
        assert ended is not None  # it waits as long as it takes
        order, arena = ended.job, self._regions.arena
        region = self._regions.keep_output(order)
        if region is None or order.output is None:
            return Done(order, ended.value, failure=ended.failure)
        output = arena.vector(region, order.output[0] * order.output[1]).reshape(order.output)
        return Done(order, ended.value, output, ended.failure, partial(arena.release, region), region)

    def close(self) -> None:
        self._processes.close()
        self._close_files()

    def _close_files(self) -> None:
        self._regions.arena.file.close()
        self._file.close()


def start_pool(setup: Setup, workers: int) -> tuple[Pool, str]:
    """The pool for this work, and a note where it is not the one that was asked for."""
    if workers == 0 or setup.device != "cpu":
        return LocalPool(setup, 0), ""
    try:
        return ProcessPool(setup, workers), ""
    except WorkersUnavailable as error:
        note = f"local training runs in threads, not processes: {error}"
        warnings.warn(note, stacklevel=4)
        return LocalPool(setup, workers), note
