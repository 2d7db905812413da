"""The process pool: assigns jobs, and repeats those of a worker that dies."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection
from typing import Any, Generic, TypeVar

from fedhpo.core.errors import FedhpoError
from fedhpo.core.errors import WorkersUnavailable as WorkersUnavailable
from fedhpo.protocol.reasons import Reason, Why, raised
from fedhpo.workers.pool import Ended, Handler, Job, Pool
from fedhpo.workers.spawn import UNGUARDED, keep_freed_memory, main_is_a_file, of_the_script, spawn

Item = TypeVar("Item")
Value = TypeVar("Value")

#: Jobs a worker holds at once: one it does, one that waits, so that it never idles.
HELD = 2
#: Workers that may die one after the other while they start.
_STARTS = 3


def pickled(own: object) -> bytes:
    """A user's own code as it travels to workers; raises `WorkersUnavailable` where it cannot."""
    try:
        found = pickle.dumps(own)
    except Exception as error:
        raise WorkersUnavailable(str(error)) from error
    if of_the_script(found) and not main_is_a_file():
        raise WorkersUnavailable("what they need is defined in a session, not in a file")
    return found


@dataclass(eq=False)
class _Worker(Generic[Job]):
    process: Any
    pipe: connection.Connection
    ready: bool = False
    held: dict[int, Job] = field(default_factory=dict)
    begun: int = 0  # the ticket that it last said to have begun; it says so of repeated jobs only


class Processes(Pool[Job]):
    """Single-threaded processes, spawned; each holds up to `held` jobs.

    A worker begins with `prepare(own, *arguments)`, which makes its handler. `own` is what the user may have
    written, and travels as `pickled(own)`: a worker that cannot import it can then say so. `pack` turns a job
    into what is sent; `drop` is told of a job that will be packed again, will not end, or could not be sent.
    A job whose worker died is repeated; it fails when a worker dies that has begun it once more.

    Raises `WorkersUnavailable` where a worker cannot be made ready.
    """

    kind = "processes"

    def __init__(
        self,
        workers: int,
        prepare: Callable[..., Handler[Any]],
        own: bytes,
        *arguments: Any,
        held: int = HELD,
        pack: Callable[[Job], Any] = lambda job: job,
        drop: Callable[[Job], object] = lambda _: None,
    ) -> None:
        self.workers = workers
        self._spawn = partial(spawn, serve, prepare, own, arguments, script=of_the_script(own))
        self._held, self._pack, self._drop = held, pack, drop
        self._tickets = 0
        self._waiting: deque[tuple[int, Job]] = deque()
        self._repeated: set[int] = set()
        self._ended: deque[Ended[Job]] = deque()
        self._workers: list[_Worker[Job]] = []
        self._lost_at_start = _STARTS  # until one has started, the first that dies is enough
        try:
            for _ in range(workers):
                self._workers.append(_Worker(*self._spawn()))
            for worker in self._workers:
                self._receive(worker)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def submit(self, job: Job, first: bool = False) -> int:
        self._tickets += 1
        if first:
            self._waiting.appendleft((self._tickets, job))
        else:
            self._waiting.append((self._tickets, job))
        self._dispatch()
        return self._tickets

    def next(self, seconds: float | None = None) -> Ended[Job] | None:
        end = None if seconds is None else time.monotonic() + seconds
        while not self._ended:
            self._dispatch()
            left = None if end is None else max(0.0, end - time.monotonic())
            readable = connection.wait([worker.pipe for worker in self._workers], left)
            if not readable:
                return None
            for worker in [w for w in self._workers if w.pipe in readable]:
                self._receive(worker)
        return self._ended.popleft()

    def cancel(self, tickets: Iterable[int]) -> None:
        """Drop these jobs. A running job can only be ended by ending its worker."""
        gone = set(tickets)
        self._repeated -= gone
        self._waiting = deque((ticket, job) for ticket, job in self._waiting if ticket not in gone)
        self._ended = deque(ended for ended in self._ended if ended.ticket not in gone)
        for worker in list(self._workers):
            if worker.held.keys() & gone:
                for ticket, job in reversed(worker.held.items()):
                    self._drop(job)
                    if ticket not in gone:
                        self._waiting.appendleft((ticket, job))
                worker.held.clear()
                worker.process.kill()
                self._replace(worker)
        self._dispatch()

    def close(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()
        self._workers = []

    def _dispatch(self) -> None:
        while self._waiting:
            worker = min((w for w in self._workers if w.ready), key=lambda w: len(w.held), default=None)
            if worker is None or len(worker.held) >= self._held:
                return
            ticket, job = self._waiting.popleft()
            try:
                # Pickled on its own: a job that a worker cannot read is its failure, not the worker's end.
                message = pickle.dumps((ticket, pickle.dumps(self._pack(job)), ticket in self._repeated))
            except Exception as error:  # such as a rule that is not defined in a module
                self._drop(job)
                failure = Reason(Why.RAISED, f"the task cannot be sent to a worker process: {error}")
                self._ended.append(Ended(ticket, job, failure=failure))
                continue
            try:
                worker.pipe.send_bytes(message)
            except OSError:  # it is dead already, and the job never began there
                self._drop(job)
                self._waiting.appendleft((ticket, job))
                while worker in self._workers:  # what it said before its end, then its end
                    self._receive(worker)
            else:
                worker.held[ticket] = job

    def _receive(self, worker: _Worker[Job]) -> None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._lost(worker)
            return
        if not worker.ready:
            if message is not None:
                raise WorkersUnavailable(message)
            worker.ready, self._lost_at_start = True, 0
            return
        if isinstance(message, int):
            worker.begun = message
            return
        ticket, value, failure = message
        self._repeated.discard(ticket)
        self._ended.append(Ended(ticket, worker.held.pop(ticket), value, failure))

    def _lost(self, worker: _Worker[Job]) -> None:
        """Handle a dead worker: repeat its jobs; a repeated job that it had begun has failed."""
        worker.process.join()
        code = worker.process.exitcode
        if not worker.ready:
            self._lost_at_start += 1
            if code == UNGUARDED:
                raise WorkersUnavailable(
                    "the script starts its work on import; put it below `if __name__ == '__main__':`"
                )
            if self._lost_at_start >= _STARTS:
                raise WorkersUnavailable(f"a worker process ended at once (exit code {code})")
        first = next(iter(worker.held), None)
        for ticket, job in reversed(worker.held.items()):
            if ticket == worker.begun:
                self._repeated.discard(ticket)
                failure = Reason(Why.RAISED, f"the worker process died twice at this task (exit code {code})")
                self._ended.append(Ended(ticket, job, failure=failure))
                continue
            if ticket == first:
                self._repeated.add(ticket)
            self._drop(job)
            self._waiting.appendleft((ticket, job))
        self._replace(worker)

    def _replace(self, worker: _Worker[Job]) -> None:
        worker.process.join()
        worker.pipe.close()
        self._workers[self._workers.index(worker)] = _Worker(*self._spawn())


def serve(
    pipe: connection.Connection,
    prepare: Callable[..., Handler[Any]],
    own: bytes,
    arguments: tuple[Any, ...],
) -> None:
    """The main function of a worker: do jobs until the parent goes."""
    keep_freed_memory()
    try:
        handle = prepare(pickle.loads(own), *arguments)  # our own parent's
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send(None)
    while True:
        try:
            ticket, packed, repeated = pipe.recv()
            if repeated:
                pipe.send(ticket)
        except (EOFError, OSError):
            return
        value: Any = None
        failure: Reason | None = None
        try:
            value = handle(pickle.loads(packed))
        except Exception as error:
            failure = raised(error)
        try:
            pipe.send((ticket, value, failure))
        except OSError:
            return
        except Exception as error:
            pipe.send((ticket, None, Reason(Why.RAISED, f"its result cannot be sent: {error}")))


def map_in_processes(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int, together: int = 4
) -> list[Value]:
    """What `function` returns for each item, in their order; `together` items travel at once.

    An exception of the function is raised here. So is a `FedhpoError` if workers die.
    """
    ended = dict(_ended(function, items, workers, together))
    return [value for ticket in sorted(ended) for value in ended[ticket]]


def imap_in_processes(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int, together: int = 4
) -> Iterator[list[Value]]:
    """The same, `together` values at a time, as soon as they are there, in any order."""
    for _, values in _ended(function, items, workers, together):
        yield values


def _ended(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int, together: int
) -> Iterator[tuple[int, list[Value]]]:
    """The place of each chunk of items, and its values."""
    chunks = [items[i : i + together] for i in range(0, len(items), together)]
    if not chunks:
        return
    pool: Processes[Sequence[Item]] = Processes(min(workers, len(chunks)), _mapper, pickled(function))
    try:
        places = {pool.submit(chunk): place for place, chunk in enumerate(chunks)}
        for _ in chunks:
            done = pool.next()
            assert done is not None  # it waits as long as it takes
            if done.failure:
                raise FedhpoError(done.failure.text)
            if isinstance(done.value, Exception):
                raise done.value
            yield places[done.ticket], done.value
    finally:
        pool.close()


def _mapper(function: Callable[[Item], Value]) -> Handler[Sequence[Item]]:
    return partial(_each, function)


def _each(function: Callable[[Item], Value], items: Sequence[Item]) -> list[Value] | Exception:
    try:
        return [function(item) for item in items]
    except Exception as error:
        return error
