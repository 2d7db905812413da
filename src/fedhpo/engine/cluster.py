"""Workers on the machines of a Ray cluster: a `Pool` whose tasks cross the network.

Ray moves objects with its own pickling, between the user's own machines. Data and weights are put once into
Ray's store, which copies each to a node at most once; the workers of a node share that copy.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.user_code import in_words
from fedhpo.core.vectors import Vector
from fedhpo.engine.executor import Executor, Setup, Task
from fedhpo.engine.pool import Done, Order, Pool
from fedhpo.workers.processes import HELD
from fedhpo.workers.spawn import keep_freed_memory

#: An order whose worker was lost is repeated once.
_ATTEMPTS = 2
#: Seconds that a first worker may take to find a place and start.
_PATIENCE = 300.0
#: Workers that may be lost one after the other before any of them has started.
_STARTS = 5
#: Orders that travel together, at most: a message costs milliseconds, a tiny training less.
_TOGETHER = 16


def connect(address: str) -> None:
    """Join a Ray cluster, unless this process is in one: "auto" for one that runs here, or its address."""
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


class _Server:
    """What runs in a worker: the executor of the pool that it serves."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        keep_freed_memory()

    def serve(self, setup: Setup) -> None:
        """Begin to work for a pool."""
        self._executor = Executor(setup)

    def run(self, pieces: Sequence[_Piece], *vectors: Vector) -> list[_Found]:
        """Do tasks: of each its value, its output, and why it failed."""
        return [self._run(piece, [vectors[i] for i in piece.starts]) for piece in pieces]

    def _run(self, piece: _Piece, starts: Sequence[Vector]) -> _Found:
        room = None if piece.output is None else np.zeros(piece.output, np.float32)
        try:
            return self._executor.run(piece.task, starts, room), room, ""
        except Exception as error:
            return None, None, in_words(error)


#: A task's value, its output, and why it failed.
_Found = tuple[Any, NDArray[np.float32] | None, str]


@dataclass(frozen=True)
class _Piece:
    """An order as it travels: its start weights are numbers of vectors that travel beside it."""

    task: Task
    starts: list[int]
    output: tuple[int, int] | None


@dataclass(eq=False)
class _Worker:
    actor: Any
    starting: Any = None
    sent: dict[Any, list[Order]] = field(default_factory=dict)

    @property
    def awaited(self) -> list[Any]:
        """What it may send next: that it has started, then the results of its tasks."""
        return list(self.sent) if self.starting is None else [self.starting]


class _Idle:
    """This process' idle workers in the cluster; they outlive a pool, because they take seconds to start."""

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._cluster = ""

    def take(self, count: int) -> list[_Worker]:
        """So many workers: idle ones first, then new ones."""
        context = ray.get_runtime_context()
        cluster = f"{context.get_node_id()} {context.get_job_id()}"  # jobs are counted anew in each cluster
        if cluster != self._cluster:  # another cluster, or the same one joined anew: the old ones are gone
            self._workers, self._cluster = [], cluster
        found, surplus, self._workers = self._workers[:count], self._workers[count:], []
        for worker in surplus:
            ray.kill(worker.actor)
        return found + [self.start() for _ in range(count - len(found))]

    def start(self) -> _Worker:
        """A new worker, wherever a core is free."""
        return _Worker(ray.remote(_Server).options(num_cpus=1, scheduling_strategy="SPREAD").remote())

    def give_back(self, workers: list[_Worker]) -> None:
        """Keep those that have nothing to do, and end the others."""
        for worker in workers:
            if worker.sent or worker.starting is not None:
                with contextlib.suppress(Exception):
                    ray.kill(worker.actor)
            else:
                self._workers.append(worker)


_idle = _Idle()


class RayPool(Pool):
    """One single-threaded worker for each core of a Ray cluster.

    What a lost worker held is done again by another. Its place is filled wherever a core is free, now or
    when a node joins; until then the others go on without it.
    """

    kind = "ray"

    def __init__(self, setup: Setup, address: str, workers: int | None = None) -> None:
        connect(address)
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._setup = ray.put(setup)
        self._placed: dict[int, tuple[Vector, Any, int]] = {}
        self._orders: deque[Order] = deque()
        self._attempts: dict[Order, int] = {}
        self._ended: deque[Done] = deque()
        self._members = [self._serving(worker) for worker in _idle.take(self.workers)]
        self._lost_at_start = 0

    def _serving(self, worker: _Worker) -> _Worker:
        worker.starting = worker.actor.serve.remote(self._setup)
        return worker

    def submit(self, order: Order) -> None:
        self._orders.append(order)
        self._dispatch()

    def next(self) -> Done:
        while not self._ended:
            self._dispatch()
            waiting = {reference: member for member in self._members for reference in member.awaited}
            nobody = all(member.starting is not None for member in self._members)
            ready, _ = ray.wait(list(waiting), timeout=_PATIENCE if nobody else None)
            if not ready:
                raise FedhpoError(
                    f"no worker found a place in the Ray cluster in {_PATIENCE:.0f} s: "
                    f"it has {ray.available_resources().get('CPU', 0):.0f} free cores"
                )
            self._receive(waiting[ready[0]], ready[0])
        return self._ended.popleft()

    def _dispatch(self) -> None:
        """Give orders to workers that have room; small ones travel together."""
        while self._orders:
            started = [member for member in self._members if member.starting is None]
            free = [member for member in started if len(member.sent) < HELD]
            if not free:
                return
            member = min(free, key=lambda m: len(m.sent))
            fair = len(self._orders) // (HELD * len(started))
            orders = [self._orders.popleft() for _ in range(min(max(1, fair), _TOGETHER))]
            vectors: dict[int, Any] = {}
            pieces = []
            for order in orders:
                vectors.update({id(vector): self._place(vector) for vector in order.starts})
                numbers = list(vectors)
                pieces.append(_Piece(order.task, [numbers.index(id(v)) for v in order.starts], order.output))
            member.sent[member.actor.run.remote(pieces, *vectors.values())] = orders

    def _place(self, vector: Vector) -> Any:
        """The weights in Ray's store; jobs of one round share them."""
        _, reference, users = self._placed.get(id(vector), (vector, None, 0))
        if reference is None:
            reference = ray.put(vector)
        self._placed[id(vector)] = vector, reference, users + 1
        return reference

    def _unplace(self, order: Order) -> None:
        for vector in order.starts:
            _, reference, users = self._placed.pop(id(vector))
            if users > 1:
                self._placed[id(vector)] = vector, reference, users - 1

    def _receive(self, member: _Worker, reference: Any) -> None:
        try:
            found = ray.get(reference)
        except ray.exceptions.RayActorError as error:
            self._replace(member, error)
            return
        except ray.exceptions.RayError as error:  # such as a result that was lost
            if reference is member.starting:
                raise FedhpoError(f"workers cannot start in the Ray cluster: {error}") from error
            failure = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            found = [(None, None, failure) for _ in member.sent[reference]]
        if reference is member.starting:
            member.starting, self._lost_at_start = None, 0
            return
        for order, (value, output, failure) in zip(member.sent.pop(reference), found, strict=True):
            self._unplace(order)
            self._attempts.pop(order, None)
            # Ray's arrays are read-only, and lie in its store as long as they are used.
            self._ended.append(Done(order, value, output, failure))

    def _replace(self, member: _Worker, error: Exception) -> None:
        """A worker was lost: do again what it held; what it held for the second time has failed."""
        self._lost_at_start += member.starting is not None
        if self._lost_at_start >= _STARTS:
            raise FedhpoError(f"workers cannot start in the Ray cluster: {error}") from error
        self._members[self._members.index(member)] = self._serving(_idle.start())
        for i, orders in enumerate(member.sent.values()):
            for order in orders:
                self._unplace(order)
                self._attempts[order] = self._attempts.get(order, 0) + (i == 0)
                if self._attempts[order] >= _ATTEMPTS:
                    del self._attempts[order]
                    self._ended.append(Done(order, failure=f"a worker was lost twice at this task: {error}"))
                else:
                    self._orders.appendleft(order)

    def close(self) -> None:
        if ray.is_initialized():
            _idle.give_back(self._members)
        self._members = []
        self._placed.clear()
        del self._setup
