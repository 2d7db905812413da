"""Workers on the machines of a Ray cluster: a `Pool` whose tasks cross the network.

Ray moves objects with its own pickling, between the user's own machines. Data and weights are put once into
Ray's store, which copies each to a node at most once; the workers of a node share that copy. Outputs that
other workers add up stay in the store of the node that made them, and never come here.
"""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from fedhpo.core.errors import FedhpoError
from fedhpo.core.user_code import in_words
from fedhpo.core.vectors import Vector
from fedhpo.engine.executor import Executor, Setup, Task
from fedhpo.engine.pool import Done, Order, Pool
from fedhpo.protocol.reasons import Reason, Why, raised
from fedhpo.workers.cluster import connect
from fedhpo.workers.processes import HELD
from fedhpo.workers.spawn import keep_freed_memory

#: An order whose worker was lost is repeated once.
_ATTEMPTS = 2
#: Seconds that a first worker may take to find a place and start.
_PATIENCE = 300.0
#: Workers that may be lost one after the other before any of them has started.
_STARTS = 5
#: Nominal seconds of orders that travel together: a message costs milliseconds, a tiny training less.
_TOGETHER = 20e-3


class _Server:
    """What runs in a worker: the executor of the pool that it serves."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        keep_freed_memory()

    def serve(self, setup: Setup) -> None:
        """Begin to work for a pool."""
        self._executor = Executor(setup)

    def run(self, pieces: Sequence[_Piece], *vectors: Vector) -> Any:
        """Do tasks: of each its value, its output, and why it failed; then the kept outputs."""
        found = [self._run(piece, [vectors[i] for i in piece.starts]) for piece in pieces]
        apart = [output for piece, (_, output, _) in zip(pieces, found, strict=True) if piece.kept]
        here = [(v, None if piece.kept else o, f) for piece, (v, o, f) in zip(pieces, found, strict=True)]
        return (here, *(None if output is None else output[0] for output in apart)) if apart else here

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
    kept: bool


@dataclass(eq=False)
class _Worker:
    actor: Any
    starting: Any = None
    #: By the reference of what will come, the orders that it does, and the references of kept outputs.
    sent: dict[Any, tuple[list[Order], list[Any]]] = field(default_factory=dict)


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
        #: Nominal seconds of them; and those of a fair share, when the last of them came.
        self._waiting = self._fair = 0.0
        self._attempts: dict[Order, int] = {}
        self._ended: deque[Done] = deque()
        #: Workers that may be sent something, by how much they hold: nobody is looked for.
        self._room: list[deque[_Worker]] = [deque() for _ in range(HELD)]
        #: What has come: Ray's own threads put it here, so that nobody waits on all references.
        self._came: queue.SimpleQueue[tuple[_Worker, Any, Any]] = queue.SimpleQueue()
        self._starting = self._lost_at_start = 0
        self._members = [self._serving(worker) for worker in _idle.take(self.workers)]

    def _serving(self, worker: _Worker) -> _Worker:
        worker.starting = worker.actor.serve.remote(self._setup)
        self._starting += 1
        self._await(worker, worker.starting)
        return worker

    def _await(self, worker: _Worker, reference: Any) -> None:
        came = self._came
        reference.future().add_done_callback(lambda future: came.put((worker, reference, future)))

    def submit(self, order: Order) -> None:
        if order.parts:
            self._orders.appendleft(order)
        else:
            self._orders.append(order)
        self._waiting += order.seconds
        self._fair = self._waiting / len(self._members)
        # What comes by single orders waits for more of them, or for somebody who asks for results.
        if order.parts or self._fair >= _TOGETHER:
            self._dispatch()

    def next(self) -> Done:
        while not self._ended:
            self._dispatch()
            nobody = self._starting == len(self._members)
            try:
                worker, reference, future = self._came.get(timeout=_PATIENCE if nobody else None)
            except queue.Empty:
                raise FedhpoError(
                    f"no worker found a place in the Ray cluster in {_PATIENCE:.0f} s: "
                    f"it has {ray.available_resources().get('CPU', 0):.0f} free cores"
                ) from None
            if reference in worker.sent or reference is worker.starting:  # else it was lost, and replaced
                self._receive(worker, reference, future)
        return self._ended.popleft()

    def _dispatch(self) -> None:
        """Give orders to workers that have room; small ones travel together."""
        while self._orders:
            holding = next((held for held, some in enumerate(self._room) if some), None)
            if holding is None:
                return
            worker = self._room[holding].popleft()
            orders = self._together()
            references: dict[Any, None] = {}  # each once, in their order
            pieces = []
            for order in orders:
                own = [self._place(vector) for vector in order.starts]
                own += [
                    self._place(p.place) if isinstance(p.place, np.ndarray) else p.place for p in order.parts
                ]
                references.update(dict.fromkeys(own))
                known = {reference: number for number, reference in enumerate(references)}
                pieces.append(_Piece(order.task, [known[one] for one in own], order.output, order.kept))
            kept = sum(order.kept for order in orders)
            sent = worker.actor.run.options(num_returns=1 + kept).remote(pieces, *references)
            first, *others = sent if kept else [sent]
            worker.sent[first] = orders, others
            self._await(worker, first)
            if len(worker.sent) < HELD:
                self._room[len(worker.sent)].append(worker)

    def _together(self) -> list[Order]:
        """Orders for one message. What adds up goes alone: if one of its parts is lost, it alone fails."""
        enough = min(_TOGETHER, self._fair)
        found = [self._orders.popleft()]
        seconds = found[0].seconds
        while self._orders and not found[0].parts and not self._orders[0].parts:
            if seconds + self._orders[0].seconds / 2 > enough:
                break
            found.append(self._orders.popleft())
            seconds += found[-1].seconds
        self._waiting = self._waiting - seconds if self._orders else 0.0
        return found

    def _place(self, vector: Vector) -> Any:
        """The weights in Ray's store; jobs of one round share them."""
        _, reference, users = self._placed.get(id(vector), (vector, None, 0))
        if reference is None:
            reference = ray.put(vector)
        self._placed[id(vector)] = vector, reference, users + 1
        return reference

    def _unplace(self, order: Order) -> None:
        for vector in order.vectors:
            _, reference, users = self._placed.pop(id(vector))
            if users > 1:
                self._placed[id(vector)] = vector, reference, users - 1

    def _receive(self, worker: _Worker, reference: Any, future: Any) -> None:
        try:
            found = future.result()
        except ray.exceptions.RayActorError as error:
            self._replace(worker, error)
            return
        except ray.exceptions.RayError as error:  # such as a result that was lost
            if reference is worker.starting:
                raise FedhpoError(f"workers cannot start in the Ray cluster: {error}") from error
            failure = raised(error, f"{type(error).__name__}: {str(error).splitlines()[0]}")
            found = [(None, None, failure) for _ in worker.sent[reference][0]]
        if reference is worker.starting:
            worker.starting, self._lost_at_start = None, 0
            self._starting -= 1
            self._room[0].append(worker)
            return
        self._lighten(worker)
        orders, kept = worker.sent.pop(reference)
        places = iter(kept)
        for order, (value, output, failure) in zip(orders, found, strict=True):
            self._unplace(order)
            self._attempts.pop(order, None)
            # Ray's arrays are read-only, and lie in its store as long as they are used.
            place = next(places, None) if order.kept else None if output is None else output[0]
            self._ended.append(Done(order, value, output, failure, place=None if failure else place))

    def _lighten(self, worker: _Worker) -> None:
        """Note that a worker will hold one message less."""
        held = len(worker.sent)
        if held < HELD:
            self._room[held].remove(worker)
        self._room[held - 1].append(worker)

    def _replace(self, worker: _Worker, error: Exception) -> None:
        """A worker was lost: do again what it held; what it held for the second time has failed."""
        if worker.starting is not None:
            self._starting -= 1
            self._lost_at_start += 1
        elif len(worker.sent) < HELD:
            self._room[len(worker.sent)].remove(worker)
        if self._lost_at_start >= _STARTS:
            raise FedhpoError(f"workers cannot start in the Ray cluster: {error}") from error
        self._members[self._members.index(worker)] = self._serving(_idle.start())
        for i, (orders, _) in enumerate(worker.sent.values()):
            for order in orders:
                self._unplace(order)
                self._attempts[order] = self._attempts.get(order, 0) + (i == 0)
                if self._attempts[order] >= _ATTEMPTS:
                    del self._attempts[order]
                    lost = Reason(Why.RAISED, f"a worker was lost twice at this task: {error}")
                    self._ended.append(Done(order, failure=lost))
                else:
                    self._orders.appendleft(order)
                    self._waiting += order.seconds
        worker.sent.clear()
        worker.starting = None

    def close(self) -> None:
        if ray.is_initialized():
            _idle.give_back(self._members)
        self._members = []
        self._placed.clear()
        del self._setup
