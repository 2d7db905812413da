"""Worker processes and the jobs they hold: who does what, and what is done again when one dies."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any, Generic, TypeVar

#: Jobs a worker holds at once: one it does, one that waits, so that it never idles.
HELD = 2
#: A job whose worker died is repeated once.
ATTEMPTS = 2

Job = TypeVar("Job")
#: A process and our end of its pipe, as `fedhpo.workers.spawn.spawn` gives them.
Hired = tuple[Any, connection.Connection]


@dataclass(frozen=True)
class Ended(Generic[Job]):
    """A job's end: its value, or why it failed."""

    ticket: int
    job: Job
    value: Any = None
    failure: str = ""


@dataclass(eq=False)
class _Member(Generic[Job]):
    process: Any
    pipe: connection.Connection
    held: dict[int, Job] = field(default_factory=dict)


class Crew(Generic[Job]):
    """So many processes that do jobs, each holding `held` of them, in whatever order they end.

    A process is sent `(ticket, pack(job))` and answers `(ticket, value, failure)`. `greet` waits until a new
    one is ready, or raises. `drop` is told of a job that was packed and has not ended.
    """

    def __init__(
        self,
        count: int,
        hire: Callable[[], Hired],
        pack: Callable[[Job], Any],
        *,
        held: int = HELD,
        greet: Callable[[Hired], None] = lambda _: None,
        drop: Callable[[Job], object] = lambda _: None,
    ) -> None:
        self._hire, self._pack, self._greet, self._drop = hire, pack, greet, drop
        self._held = held
        self._tickets = 0
        self._waiting: deque[tuple[int, Job]] = deque()
        self._attempts: dict[int, int] = {}
        self._ended: deque[Ended[Job]] = deque()
        self._members: list[_Member[Job]] = []
        try:
            for _ in range(count):
                self._members.append(_Member(*hire()))
            for member in self._members:
                greet((member.process, member.pipe))
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [member.process.pid for member in self._members]

    def submit(self, job: Job) -> int:
        """Take a job; its ticket comes back."""
        self._tickets += 1
        self._waiting.append((self._tickets, job))
        self._dispatch()
        return self._tickets

    def next(self, seconds: float | None = None) -> Ended[Job] | None:
        """Wait for a job to end; None if that took longer than `seconds`."""
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

    def cancel(self, tickets: Iterable[int]) -> None:
        """Forget these jobs, also those under way: there is no way to end one but to end its worker."""
        gone = set(tickets)
        for ticket in gone:
            self._attempts.pop(ticket, None)
        self._waiting = deque((ticket, job) for ticket, job in self._waiting if ticket not in gone)
        self._ended = deque(ended for ended in self._ended if ended.ticket not in gone)
        for member in list(self._members):
            if member.held.keys() & gone:
                for ticket, job in reversed(member.held.items()):
                    self._drop(job)
                    if ticket not in gone:
                        self._waiting.appendleft((ticket, job))
                member.held.clear()
                member.process.kill()
                self._replace(member)
        self._dispatch()

    def close(self) -> None:
        """Stop the workers."""
        for member in self._members:
            member.process.kill()
        for member in self._members:
            member.process.join()
            member.pipe.close()
        self._members = []

    def _dispatch(self) -> None:
        while self._waiting:
            member = min(self._members, key=lambda m: len(m.held))
            if len(member.held) >= self._held:
                return
            ticket, job = self._waiting.popleft()
            try:
                message = pickle.dumps((ticket, self._pack(job)))
            except Exception as error:  # such as a rule that is not defined in a module
                failure = f"the task cannot be sent to a worker process: {error}"
                self._ended.append(Ended(ticket, job, failure=failure))
                continue
            member.held[ticket] = job
            with contextlib.suppress(OSError):  # a dead worker is noticed when it is waited for
                member.pipe.send_bytes(message)

    def _receive(self, member: _Member[Job]) -> None:
        try:
            ticket, value, failure = member.pipe.recv()
        except (EOFError, OSError):
            self._replace(member)
            return
        self._attempts.pop(ticket, None)
        self._ended.append(Ended(ticket, member.held.pop(ticket), value, failure))

    def _replace(self, member: _Member[Job]) -> None:
        """A worker died: do again what it held; what it was doing for the second time has failed."""
        member.process.join()
        member.pipe.close()
        new: _Member[Job] = _Member(*self._hire())
        self._members[self._members.index(member)] = new
        for ticket in list(member.held)[:1]:
            self._attempts[ticket] = self._attempts.get(ticket, 0) + 1
        for ticket, job in reversed(member.held.items()):
            if self._attempts.get(ticket, 0) >= ATTEMPTS:
                del self._attempts[ticket]
                failure = f"the worker process died twice at this task (exit code {member.process.exitcode})"
                self._ended.append(Ended(ticket, job, failure=failure))
            else:
                self._drop(job)
                self._waiting.appendleft((ticket, job))
        self._greet((new.process, new.pipe))
