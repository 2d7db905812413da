"""Workers on the machines of a Ray cluster, for jobs of any kind: a `Pool` whose jobs cross the network.

Ray moves objects with its own pickling, between the user's own machines. For local training of torch models
`fedhpo.engine.cluster` has a pool of its own, which shares weights between jobs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import ray

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.protocol.reasons import Reason, Why, raised
from fedhpo.workers.pool import Ended, Handler, Job, Pool
from fedhpo.workers.processes import HELD

#: A job whose worker was lost is repeated once.
_ATTEMPTS = 2
#: Workers that may be lost one after the other before any of them has done a job.
_STARTS = 5


def connect(address: str) -> None:
    """Join a Ray cluster by address, or "auto" for a local one, unless already connected."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(
            f"ray = {address!r}: no Ray cluster answers there ({str(error).splitlines()[0]}); "
            "start one with: ray start --head"
        ) from error


class _Actor:
    """What runs in a worker: the handler that `prepare` made there."""

    def __init__(self, prepare: Callable[..., Handler[Any]], *arguments: Any) -> None:
        self._handle = prepare(*arguments)

    def do(self, job: Any) -> tuple[Any, Reason | None]:
        """A job's value, or why it failed."""
        try:
            return self._handle(job), None
        except Exception as error:
            return None, raised(error)


@dataclass(eq=False)
class _Worker:
    actor: Any
    sent: dict[Any, int] = field(default_factory=dict)  # by reference of what will come, the ticket


class RayWorkers(Pool[Job]):
    """One single-threaded worker for each core of a Ray cluster; `prepare(*arguments)` makes its handler.

    What a lost worker held is done again by another, once.
    """

    kind = "ray"

    def __init__(
        self,
        address: str,
        workers: int | None,
        prepare: Callable[..., Handler[Any]],
        *arguments: Any,
    ) -> None:
        connect(address)
        resources: Any = ray.cluster_resources()  # type: ignore[no-untyped-call]
        self.workers = workers or max(1, int(resources.get("CPU", 1)))
        self._prepare, self._arguments = prepare, [ray.put(one) for one in arguments]
        self._tickets = self._lost = 0
        self._jobs: dict[int, Job] = {}
        self._attempts: dict[int, int] = {}
        self._waiting: deque[int] = deque()
        self._came: queue.SimpleQueue[tuple[_Worker, Any, Any]] = queue.SimpleQueue()
        self._ended: deque[Ended[Job]] = deque()
        self._members = [self._start() for _ in range(self.workers)]

    def _start(self) -> _Worker:
        threads = {"env_vars": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}}
        # Counted as no core: idle workers that `fedhpo.engine.cluster` keeps may hold all of them.
        options: Any = {"num_cpus": 0, "scheduling_strategy": "SPREAD", "runtime_env": threads}
        return _Worker(ray.remote(_Actor).options(**options).remote(self._prepare, *self._arguments))

    def submit(self, job: Job, first: bool = False) -> int:
        self._tickets += 1
        self._jobs[self._tickets] = job
        (self._waiting.appendleft if first else self._waiting.append)(self._tickets)
        self._dispatch()
        return self._tickets

    def _dispatch(self) -> None:
        while self._waiting:
            worker = min(self._members, key=lambda one: len(one.sent))
            if len(worker.sent) >= HELD:
                return
            ticket = self._waiting.popleft()
            reference = worker.actor.do.remote(self._jobs[ticket])
            worker.sent[reference] = ticket
            self._await(worker, reference)

    def _await(self, worker: _Worker, reference: Any) -> None:
        came = self._came
        reference.future().add_done_callback(lambda future: came.put((worker, reference, future)))

    def next(self, seconds: float | None = None) -> Ended[Job] | None:
        while not self._ended:
            self._dispatch()
            try:
                worker, reference, future = self._came.get(timeout=seconds)
            except queue.Empty:
                return None
            if reference in worker.sent:  # else it was lost, and is done again
                self._receive(worker, reference, future)
        return self._ended.popleft()

    def _receive(self, worker: _Worker, reference: Any, future: Any) -> None:
        try:
            value, failure = future.result()
        except ray.exceptions.RayActorError as error:
            self._replace(worker, error)
            return
        except ray.exceptions.RayError as error:  # such as a job that a worker cannot read
            value, failure = None, raised(error, f"{type(error).__name__}: {str(error).splitlines()[0]}")
        self._lost = 0
        self._end(worker.sent.pop(reference), value, failure)

    def _end(self, ticket: int, value: Any, failure: Reason | None) -> None:
        self._attempts.pop(ticket, None)
        job = self._jobs.pop(ticket, None)
        if job is not None:  # else it was cancelled
            self._ended.append(Ended(ticket, job, value, failure))

    def _replace(self, worker: _Worker, error: Exception) -> None:
        """Handle a lost worker: repeat its jobs; a job lost twice has failed."""
        self._lost += 1
        if self._lost >= _STARTS:
            raise FedhpoError(f"workers cannot start in the Ray cluster: {error}") from error
        self._members[self._members.index(worker)] = self._start()
        tickets, worker.sent = list(worker.sent.values()), {}
        for place, ticket in enumerate(tickets):
            self._attempts[ticket] = self._attempts.get(ticket, 0) + (place == 0)
            if self._attempts[ticket] >= _ATTEMPTS:
                lost = Reason(Why.RAISED, f"a worker was lost twice at this task: {error}")
                self._end(ticket, None, lost)
            else:
                self._waiting.appendleft(ticket)

    def cancel(self, tickets: Iterable[int]) -> None:
        """Drop these jobs; results of running ones are ignored."""
        gone = set(tickets)
        self._waiting = deque(ticket for ticket in self._waiting if ticket not in gone)
        self._ended = deque(ended for ended in self._ended if ended.ticket not in gone)
        for ticket in gone:
            self._jobs.pop(ticket, None)

    def close(self) -> None:
        for worker in self._members:
            with contextlib.suppress(Exception):
                ray.kill(worker.actor)
        self._members, self._arguments = [], []
