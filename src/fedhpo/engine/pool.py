"""Workers that do tasks of local training: processes, threads, or none.

All three have the same few methods. Which one does the work never changes a result: every job has
its own random stream, and whoever collects results adds them up in the order of the work.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import process
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedhpo.core.errors import FedhpoError
from fedhpo.core.streams import torch_generator
from fedhpo.core.user_code import in_words
from fedhpo.core.vectors import Vector
from fedhpo.engine import worker
from fedhpo.engine.executor import Executor, Setup, Task
from fedhpo.workers.crew import Crew, Hired
from fedhpo.workers.memory import Arena, Region, SharedFile
from fedhpo.workers.shared_data import share_data
from fedhpo.workers.spawn import UNGUARDED, of_the_script, spawn


class WorkersUnavailable(FedhpoError):
    """Worker processes cannot do this work; the message says why."""


@dataclass(eq=False)
class Order:
    """A task on its way: the start weights it needs, and the shape of its output, if it has one."""

    task: Task
    starts: Sequence[Vector]
    output: tuple[int, int] | None = None


@dataclass
class Done:
    """A task's end: its value and output, or why it failed. `release` the output after use."""

    order: Order
    value: Any = None
    output: NDArray[np.float32] | None = None
    failure: str = ""
    release: Callable[[], None] = lambda: None


class Pool(ABC):
    """Does orders, in whatever order they end."""

    kind: str
    workers: int

    @abstractmethod
    def submit(self, order: Order) -> None:
        """Take an order."""

    @abstractmethod
    def next(self) -> Done:
        """Wait for an order to end."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers."""


class InlinePool(Pool):
    """Does the work in the calling thread, when it is asked for a result."""

    kind = "inline"
    workers = 0

    def __init__(self, setup: Setup) -> None:
        self._executor = Executor(setup)
        self._orders: deque[Order] = deque()

    def submit(self, order: Order) -> None:
        self._orders.append(order)

    def next(self) -> Done:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch_generator():
                done = _do(self._executor, self._orders[0])
            self._orders.popleft()  # not before: after Ctrl-C the order is still there
            return done
        finally:
            torch.set_num_threads(threads)

    def close(self) -> None:
        self._orders.clear()


def _do(executor: Executor, order: Order) -> Done:
    output = None if order.output is None else np.zeros(order.output, np.float32)
    try:
        return Done(order, executor.run(order.task, order.starts, output), output)
    except Exception as error:
        return Done(order, failure=in_words(error))


class ThreadPool(Pool):
    """Threads of this process, for models that a worker process could not import."""

    kind = "threads"

    def __init__(self, setup: Setup, workers: int) -> None:
        self.workers = workers
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(setup,), daemon=True) for _ in range(workers)
        ]
        for thread in self._threads:
            thread.start()
        # A thread that is still inside torch when the interpreter ends would abort the process.
        atexit.register(self.close)

    def _work(self, setup: Setup) -> None:
        torch.set_num_threads(1)
        executor = Executor(setup)
        while (order := self._orders.get()) is not None:
            try:
                # Dropout draws from torch's global generator: one such training at a time.
                with torch_generator() if executor.is_random(order.task) else contextlib.nullcontext():
                    done = _do(executor, order)
            except BaseException as error:  # a thread that ended would be waited for in vain
                done = Done(order, failure=in_words(error))
            self._done.put(done)

    def submit(self, order: Order) -> None:
        self._orders.put(order)

    def next(self) -> Done:
        return self._done.get()

    def close(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._orders.get_nowait()
        for _ in self._threads:
            self._orders.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        atexit.unregister(self.close)


class _Regions:
    """Where the weights and outputs lie of the orders that workers hold."""

    def __init__(self) -> None:
        self.arena = Arena(SharedFile.in_memory())
        self._starts: dict[int, tuple[Vector, Region, int]] = {}
        self._outputs: dict[Order, Region | None] = {}

    def place(self, order: Order) -> Any:
        """What a worker is sent of an order."""
        task = pickle.dumps(order.task)
        starts = [(self._start(vector), len(vector)) for vector in order.starts]
        output = self.arena.allocate(order.output[0] * order.output[1]) if order.output else None
        self._outputs[order] = output
        return task, starts, output, order.output

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
        for vector in order.starts:
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
        try:
            code = pickle.dumps((setup.factory, setup.loss, setup.train, setup.device, setup.metrics))
        except Exception as error:
            raise WorkersUnavailable(str(error)) from error
        script = of_the_script(code)
        if script and not _main_is_a_file():
            raise WorkersUnavailable("the model is defined in a session, not in a file")
        data, self._file = share_data(setup.data)
        self._regions = regions = _Regions()
        # The crew must not know the pool: who is no longer referred to goes at once, with the workers.
        start = partial(spawn, worker.main, regions.arena.file, code, data, script=script)
        try:
            self._crew = Crew(workers, start, regions.place, greet=_greet, drop=regions.drop)
        except BaseException:
            self._close_files()
            raise

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return self._crew.pids

    def submit(self, order: Order) -> None:
        self._crew.submit(order)

    def next(self) -> Done:
        ended = self._crew.next()
        assert ended is not None  # it waits as long as it takes
        order, arena = ended.job, self._regions.arena
        region = self._regions.keep_output(order)
        if region is None or order.output is None:
            return Done(order, ended.value, failure=ended.failure)
        output = arena.vector(region, order.output[0] * order.output[1]).reshape(order.output)
        return Done(order, ended.value, output, ended.failure, partial(arena.release, region))

    def close(self) -> None:
        self._crew.close()
        self._close_files()

    def _close_files(self) -> None:
        self._regions.arena.file.close()
        self._file.close()


def _greet(hired: Hired) -> None:
    """Wait until a worker has its model and data."""
    member, pipe = hired
    try:
        problem = pipe.recv()
    except (EOFError, OSError):
        member.join()
        if member.exitcode == UNGUARDED:
            problem = "the script starts its work on import; put it below `if __name__ == '__main__':`"
        else:
            problem = f"a worker process ended at once (exit code {member.exitcode})"
    if problem is not None:
        raise WorkersUnavailable(problem)


def hire(setup: Setup, workers: int) -> tuple[Pool, str]:
    """The pool for this work, and a note where it is not the one that was asked for."""
    if workers == 0 or setup.device != "cpu":
        return InlinePool(setup), ""
    try:
        return ProcessPool(setup, workers), ""
    except WorkersUnavailable as error:
        note = f"local training runs in threads, not processes: {error}"
        warnings.warn(note, stacklevel=4)
        return ThreadPool(setup, workers), note


def _main_is_a_file() -> bool:
    main = sys.modules["__main__"]
    named = getattr(main, "__spec__", None) is not None
    return named or os.path.isfile(getattr(main, "__file__", None) or "")


def refuse_in_worker() -> None:
    """End a worker that is importing a script without main guard, before it does the script's work."""
    if getattr(process.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)
