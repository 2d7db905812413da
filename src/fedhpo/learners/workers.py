"""Workers for learners: one single-threaded process per core, or none, doing the work when it is asked for.

Tasks end in any order and results do not depend on who did them: each has a seed of its own.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial
from multiprocessing import connection
from typing import Any

from fedhpo.core.errors import FedhpoError
from fedhpo.core.user_code import in_words
from fedhpo.learners.tasks import Bench, Task
from fedhpo.workers.crew import Crew, Ended
from fedhpo.workers.shared_data import open_data, share_data
from fedhpo.workers.spawn import of_the_script, spawn


class Workers(ABC):
    """Does tasks, in whatever order they end."""

    @abstractmethod
    def submit(self, task: Task) -> int:
        """Take a task; its ticket comes back."""

    @abstractmethod
    def next(self, seconds: float | None = None) -> Ended[Task] | None:
        """Wait for a task to end; None if that took longer than `seconds`."""

    @abstractmethod
    def cancel(self, tickets: Iterable[int]) -> None:
        """Forget these tasks, also those under way."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers."""


class Inline(Workers):
    """Does a task in the calling thread when a result is asked for; a time limit never cuts one short."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._tickets = 0
        self._waiting: dict[int, Task] = {}

    def submit(self, task: Task) -> int:
        self._tickets += 1
        self._waiting[self._tickets] = task
        return self._tickets

    def next(self, seconds: float | None = None) -> Ended[Task] | None:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        ticket = next(iter(self._waiting))
        with threadpool_limits(1):  # as in a worker process, whose environment says so
            done = _do(self._bench, ticket, self._waiting[ticket])
        del self._waiting[ticket]  # not before: after Ctrl-C the task is still there
        return done

    def cancel(self, tickets: Iterable[int]) -> None:
        for ticket in tickets:
            self._waiting.pop(ticket, None)

    def close(self) -> None:
        self._waiting.clear()


def _do(bench: Bench, ticket: int, task: Task) -> Ended[Task]:
    try:
        return Ended(ticket, task, task.run(bench))
    except Exception as error:  # what fails at a party is reported, it does not end the run
        return Ended(ticket, task, failure=in_words(error))


class Processes(Workers):
    """Spawned processes; the parties' rows reach them through one file, once."""

    def __init__(self, bench: Bench, count: int) -> None:
        code = pickle.dumps(bench.learner)
        data, self._file = share_data(bench.data)
        start = partial(spawn, _work, code, data, script=of_the_script(code))
        try:
            self._crew: Crew[Task] = Crew(count, start, lambda task: task)
        except BaseException:
            self._file.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return self._crew.pids

    def submit(self, task: Task) -> int:
        return self._crew.submit(task)

    def next(self, seconds: float | None = None) -> Ended[Task] | None:
        return self._crew.next(seconds)

    def cancel(self, tickets: Iterable[int]) -> None:
        self._crew.cancel(tickets)

    def close(self) -> None:
        self._crew.close()
        self._file.close()


def workers_of(bench: Bench, count: int) -> Workers:
    """So many processes, or none."""
    if count < 0:
        raise FedhpoError(f"workers must be at least 0, not {count}")
    return Processes(bench, count) if count else Inline(bench)


def _work(pipe: connection.Connection, code: bytes, data: Any) -> None:
    """The main function of a worker: tasks until the parent goes."""
    bench = Bench(pickle.loads(code), open_data(*data))  # our own parent's
    while True:
        try:
            ticket, task = pipe.recv()
        except (EOFError, OSError):
            return
        done = _do(bench, ticket, task)
        try:
            pipe.send((ticket, done.value, done.failure))
        except OSError:
            return
        except Exception as error:
            pipe.send((ticket, None, f"what came of it cannot be sent: {error}"))
