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
from dataclasses import dataclass, field
from multiprocessing import connection, process
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedhpo.engine import Vector, worker
from fedhpo.engine.executor import Executor, Setup, Task
from fedhpo.engine.memory import Arena, Region, SharedFile
from fedhpo.engine.spawn import of_the_script, spawn
from fedhpo.engine.streams import torch_generator
from fedhpo.errors import FedhpoError

#: Tasks a worker process holds at once: one it does, one that waits, so that it never idles.
HELD = 2
#: A task whose worker died is repeated once.
ATTEMPTS = 2


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
        return Done(order, failure=f"{type(error).__name__}: {error}")


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
                done = Done(order, failure=f"{type(error).__name__}: {error}")
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


@dataclass(eq=False)
class _Sent:
    order: Order
    starts: list[Region]
    output: Region | None


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: connection.Connection
    sent: dict[int, _Sent] = field(default_factory=dict)


class ProcessPool(Pool):
    """One single-threaded process per worker, spawned; weights travel through an `Arena`.

    Raises `WorkersUnavailable` where the model cannot be imported by a worker.
    """

    kind = "processes"

    def __init__(self, setup: Setup, workers: int) -> None:
        self.workers = workers
        try:
            self._code = pickle.dumps((setup.factory, setup.loss, setup.train, setup.device))
        except Exception as error:
            raise WorkersUnavailable(str(error)) from error
        self._script = of_the_script(self._code)
        if self._script and not _main_is_a_file():
            raise WorkersUnavailable("the model is defined in a session, not in a file")
        self._data, self._file = worker.share_data(setup.data)
        self._arena = Arena(SharedFile.in_memory())
        self._placed: dict[int, tuple[Vector, Region, int]] = {}
        self._orders: deque[Order] = deque()
        self._attempts: dict[Order, int] = {}
        self._ended: deque[Done] = deque()
        self._ticket = 0
        self._members: list[_Worker] = []
        try:
            self._members = [self._spawn() for _ in range(workers)]
            for member in self._members:
                self._await_ready(member)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [member.process.pid for member in self._members]

    def _spawn(self) -> _Worker:
        return _Worker(*spawn(worker.main, self._arena.file, self._code, self._data, script=self._script))

    def _await_ready(self, member: _Worker) -> None:
        try:
            problem = member.pipe.recv()
        except (EOFError, OSError):
            member.process.join()
            if member.process.exitcode == worker.UNGUARDED:
                problem = "the script starts its work on import; put it below `if __name__ == '__main__':`"
            else:
                problem = f"a worker process ended at once (exit code {member.process.exitcode})"
        if problem is not None:
            raise WorkersUnavailable(problem)

    def submit(self, order: Order) -> None:
        self._orders.append(order)
        self._dispatch()

    def next(self) -> Done:
        while not self._ended:
            self._dispatch()
            ready = connection.wait([member.pipe for member in self._members])
            for member in [m for m in self._members if m.pipe in ready]:
                self._receive(member)
        return self._ended.popleft()

    def _dispatch(self) -> None:
        while self._orders:
            member = min(self._members, key=lambda m: len(m.sent))
            if len(member.sent) >= HELD:
                return
            order = self._orders.popleft()
            starts = [self._place(vector) for vector in order.starts]
            output = self._arena.allocate(order.output[0] * order.output[1]) if order.output else None
            sent = _Sent(order, starts, output)
            try:
                task = pickle.dumps(order.task)
            except Exception as error:  # such as a rule that is not defined in a module
                self._finish(sent, None, f"the task cannot be sent to a worker process: {error}")
                continue
            self._ticket += 1
            sizes = [len(vector) for vector in order.starts]
            member.sent[self._ticket] = sent
            with contextlib.suppress(OSError):  # a dead worker is noticed when it is waited for
                member.pipe.send(
                    (self._ticket, task, list(zip(starts, sizes, strict=True)), output, order.output)
                )

    def _place(self, vector: Vector) -> Region:
        """The region that holds these weights; jobs of one round share it."""
        _, region, users = self._placed.get(id(vector), (vector, None, 0))
        if region is None:
            region = self._arena.allocate(len(vector))
            self._arena.vector(region, len(vector))[:] = vector
        self._placed[id(vector)] = vector, region, users + 1
        return region

    def _unplace(self, vector: Vector) -> None:
        _, region, users = self._placed.pop(id(vector))
        if users > 1:
            self._placed[id(vector)] = vector, region, users - 1
        else:
            self._arena.release(region)

    def _receive(self, member: _Worker) -> None:
        try:
            ticket, value, failure = member.pipe.recv()
        except (EOFError, OSError):
            self._replace(member)
            return
        sent = member.sent.pop(ticket)
        self._attempts.pop(sent.order, None)
        self._finish(sent, value, failure)

    def _finish(self, sent: _Sent, value: Any, failure: str) -> None:
        for vector in sent.order.starts:
            self._unplace(vector)
        region, shape = sent.output, sent.order.output
        if region is None or shape is None:
            self._ended.append(Done(sent.order, value, failure=failure))
            return
        output = self._arena.vector(region, shape[0] * shape[1]).reshape(shape)
        released = region
        self._ended.append(Done(sent.order, value, output, failure, lambda: self._arena.release(released)))

    def _replace(self, member: _Worker) -> None:
        """A worker died: do again what it held; what it was doing for the second time has failed."""
        member.process.join()
        member.pipe.close()
        place = self._members.index(member)
        self._members[place] = self._spawn()
        held = list(member.sent.values())
        for i, sent in enumerate(held):
            if i == 0:
                self._attempts[sent.order] = self._attempts.get(sent.order, 0) + 1
            if self._attempts.get(sent.order, 0) >= ATTEMPTS:
                self._attempts.pop(sent.order)
                code = member.process.exitcode
                self._finish(sent, None, f"the worker process died twice at this task (exit code {code})")
                continue
            for vector in sent.order.starts:
                self._unplace(vector)
            if sent.output is not None:
                self._arena.release(sent.output)
            self._orders.appendleft(sent.order)
        self._await_ready(self._members[place])

    def close(self) -> None:
        for member in self._members:
            member.process.kill()
        for member in self._members:
            member.process.join()
            member.pipe.close()
        self._members = []
        self._arena.file.close()
        self._file.close()


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
        os._exit(worker.UNGUARDED)
