"""A pool runs jobs in the calling thread, in threads, or in processes, and returns their results.

A handler does one job and returns its value; it is made once by each worker. Which pool does the work never
changes a result: every job has its own random stream, and the caller puts results in order.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.protocol.reasons import Reason, raised

Job = TypeVar("Job")
#: Does a job and returns its value; an exception is the job's failure.
Handler = Callable[[Job], Any]


@dataclass(frozen=True)
class Ended(Generic[Job]):
    """A job's end: its value, or why it failed."""

    ticket: int
    job: Job
    value: Any = None
    failure: Reason | None = None


class Pool(ABC, Generic[Job]):
    """Does jobs, which may end in any order."""

    kind: str
    workers: int

    @property
    def pids(self) -> list[int]:
        """The worker processes' ids; empty if there are none."""
        return []

    @abstractmethod
    def submit(self, job: Job, first: bool = False) -> int:
        """Accept a job and return its ticket; `first` puts it before those that wait."""

    @abstractmethod
    def next(self, seconds: float | None = None) -> Ended[Job] | None:
        """Wait for a job to end; None if that took longer than `seconds`."""

    @abstractmethod
    def cancel(self, tickets: Iterable[int]) -> None:
        """Drop these jobs, including running ones."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers."""


def ended(handle: Handler[Job], ticket: int, job: Job) -> Ended[Job]:
    """Run a job; an exception becomes a reported failure and does not end the run."""
    try:
        return Ended(ticket, job, handle(job))
    except Exception as error:
        return Ended(ticket, job, failure=raised(error))


def ray_workers(
    address: str, workers: int | None, prepare: Callable[..., Handler[Any]], *arguments: Any
) -> Pool[Any]:
    """Workers on a Ray cluster, each of which begins with `prepare(*arguments)`."""
    if workers == 0:
        raise InputError("workers must be at least 1 on a Ray cluster, not 0")
    try:
        from fedhpo.workers.cluster import RayWorkers
    except ModuleNotFoundError as error:
        raise MissingExtraError("ray", "ray") from error
    return RayWorkers(address, workers, prepare, *arguments)


class Inline(Pool[Job]):
    """Does a job in the calling thread when a result is asked for; a time limit never cuts one short.

    `around` is entered for each job: what a worker process would have set once.
    """

    kind = "inline"
    workers = 0

    def __init__(
        self,
        handle: Handler[Job],
        around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> None:
        self._handle, self._around = handle, around
        self._tickets = 0
        self._waiting: OrderedDict[int, Job] = OrderedDict()

    def submit(self, job: Job, first: bool = False) -> int:
        self._tickets += 1
        self._waiting[self._tickets] = job
        self._waiting.move_to_end(self._tickets, last=not first)
        return self._tickets

    def next(self, seconds: float | None = None) -> Ended[Job] | None:
        ticket, job = next(iter(self._waiting.items()))
        with self._around():
            done = ended(self._handle, ticket, job)
        del self._waiting[ticket]  # not before: after Ctrl-C the job is still there
        return done

    def cancel(self, tickets: Iterable[int]) -> None:
        for ticket in tickets:
            self._waiting.pop(ticket, None)

    def close(self) -> None:
        self._waiting.clear()


class Threads(Pool[Job]):
    """Threads of this process, for code that a worker process could not import.

    `prepare` makes each thread's handler.
    """

    kind = "threads"

    def __init__(self, workers: int, prepare: Callable[[], Handler[Job]]) -> None:
        self.workers = workers
        self._tickets = 0
        self._cancelled: set[int] = set()
        self._jobs: queue.SimpleQueue[tuple[int, Job] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Ended[Job]] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(prepare,), daemon=True) for _ in range(workers)
        ]
        for thread in self._threads:
            thread.start()
        # A thread that is still inside torch when the interpreter ends would abort the process.
        atexit.register(self.close)

    def _work(self, prepare: Callable[[], Handler[Job]]) -> None:
        handle = prepare()
        while (taken := self._jobs.get()) is not None:
            ticket, job = taken
            if ticket in self._cancelled:
                continue
            try:
                done = ended(handle, ticket, job)
            except BaseException as error:  # the caller would wait in vain for a thread that ended
                done = Ended(ticket, job, failure=raised(error))
            self._ended.put(done)

    def submit(self, job: Job, first: bool = False) -> int:
        self._tickets += 1  # threads take jobs as they come
        self._jobs.put((self._tickets, job))
        return self._tickets

    def next(self, seconds: float | None = None) -> Ended[Job] | None:
        while True:
            try:
                done = self._ended.get(timeout=seconds)
            except queue.Empty:
                return None
            if done.ticket not in self._cancelled:
                return done

    def cancel(self, tickets: Iterable[int]) -> None:
        self._cancelled.update(tickets)

    def close(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        atexit.unregister(self.close)
