"""Workers for learners: one single-threaded process per core, or none, doing the work when it is asked for.

Tasks end in any order and results do not depend on who did them: each has a seed of its own.
"""

from __future__ import annotations

import contextlib
import pickle
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from fedhpo.engine.spawn import of_the_script, spawn
from fedhpo.engine.worker import open_data, share_data
from fedhpo.errors import FedhpoError
from fedhpo.learners.tasks import Bench, Task

#: Tasks a worker holds at once: one it does, one that waits, so that it never idles.
_HELD = 2
#: A task whose worker died is repeated once.
_ATTEMPTS = 2


@dataclass(frozen=True)
class Done:
    """A task's end: its value, or why it failed."""

    ticket: int
    value: Any = None
    failure: str = ""


class Workers(ABC):
    """Does tasks, in whatever order they end."""

    def __init__(self) -> None:
        self._tickets = 0

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    @abstractmethod
    def submit(self, task: Task) -> int:
        """Take a task; its ticket comes back."""

    @abstractmethod
    def next(self, seconds: float | None = None) -> Done | None:
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
        super().__init__()
        self._bench = bench
        self._waiting: dict[int, Task] = {}

    def submit(self, task: Task) -> int:
        ticket = self._ticket()
        self._waiting[ticket] = task
        return ticket

    def next(self, seconds: float | None = None) -> Done | None:
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


def _do(bench: Bench, ticket: int, task: Task) -> Done:
    try:
        return Done(ticket, task.run(bench))
    except Exception as error:  # what fails at a party is reported, it does not end the run
        return Done(ticket, failure=f"{type(error).__name__}: {error}")


@dataclass(eq=False)
class _Member:
    process: Any
    pipe: connection.Connection
    sent: dict[int, Task] = field(default_factory=dict)


class Processes(Workers):
    """Spawned processes; the parties' rows reach them through one file, once."""

    def __init__(self, bench: Bench, count: int) -> None:
        super().__init__()
        self._code = pickle.dumps(bench.learner)
        self._data, self._file = share_data(bench.data)
        self._waiting: deque[tuple[int, Task]] = deque()
        self._attempts: dict[int, int] = {}
        self._ended: deque[Done] = deque()
        self._members: list[_Member] = []
        try:
            self._members = [self._spawn() for _ in range(count)]
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [member.process.pid for member in self._members]

    def _spawn(self) -> _Member:
        return _Member(*spawn(_work, self._code, self._data, script=of_the_script(self._code)))

    def submit(self, task: Task) -> int:
        ticket = self._ticket()
        self._waiting.append((ticket, task))
        self._dispatch()
        return ticket

    def _dispatch(self) -> None:
        while self._waiting:
            member = min(self._members, key=lambda m: len(m.sent))
            if len(member.sent) >= _HELD:
                return
            ticket, task = self._waiting.popleft()
            member.sent[ticket] = task
            with contextlib.suppress(OSError):  # a dead worker is noticed when it is waited for
                member.pipe.send((ticket, task))

    def next(self, seconds: float | None = None) -> Done | None:
        end = None if seconds is None else time.monotonic() + seconds
        while not self._ended:
            self._dispatch()
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = connection.wait([member.pipe for member in self._members], left)
            if not ready:
                return None
            for member in [m for m in self._members if m.pipe in ready]:
                self._receive(member)
        return self._ended.popleft()

    def _receive(self, member: _Member) -> None:
        try:
            done = member.pipe.recv()
        except (EOFError, OSError):
            self._replace(member)
            return
        if done.ticket not in member.sent:
            return
        del member.sent[done.ticket]
        self._attempts.pop(done.ticket, None)
        self._ended.append(done)

    def _replace(self, member: _Member) -> None:
        """A worker died: do again what it held; what it was doing for the second time has failed."""
        member.process.kill()
        member.process.join()
        member.pipe.close()
        code = member.process.exitcode
        self._members[self._members.index(member)] = self._spawn()
        for place, (ticket, task) in enumerate(member.sent.items()):
            if place == 0:
                self._attempts[ticket] = self._attempts.get(ticket, 0) + 1
            if self._attempts.get(ticket, 0) >= _ATTEMPTS:
                del self._attempts[ticket]
                self._ended.append(Done(ticket, failure=f"the worker process died twice (exit code {code})"))
            else:
                self._waiting.appendleft((ticket, task))

    def cancel(self, tickets: Iterable[int]) -> None:
        gone = set(tickets)
        self._waiting = deque((ticket, task) for ticket, task in self._waiting if ticket not in gone)
        self._ended = deque(done for done in self._ended if done.ticket not in gone)
        for member in list(self._members):
            held = member.sent.keys() & gone
            for ticket in held:
                del member.sent[ticket]
            if held:  # there is no other way to end a training
                self._replace_busy(member)

    def _replace_busy(self, member: _Member) -> None:
        kept = list(member.sent.items())
        member.sent.clear()
        self._waiting.extendleft(reversed(kept))
        self._replace(member)
        self._dispatch()

    def close(self) -> None:
        for member in self._members:
            member.process.kill()
        for member in self._members:
            member.process.join()
            member.pipe.close()
        self._members = []
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
            pipe.send(done)
        except OSError:
            return
        except Exception as error:
            pipe.send(Done(ticket, failure=f"what came of it cannot be sent: {error}"))
