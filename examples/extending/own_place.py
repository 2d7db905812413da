"""A place of one's own: parties that are asked in the threads of a `concurrent.futures` executor.

`own_place.toml` names it, and tunes boosted trees by bagging there: `fedhpo tune own_place.toml`. Another
executor, of a cluster say, would do as well.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fedhpo.workers.pool import Ended, Handler, Pool, ended


@dataclass(frozen=True)
class ThreadPlace:
    """Threads of this process; `threads` is a key of `[place]`."""

    threads: int = 4

    def open(self, prepare: Callable[[], Handler[Any]]) -> Pool[Any]:
        """A pool whose threads share one handler."""
        return ThreadPool(self.threads, prepare())


class ThreadPool(Pool[Any]):
    """Does jobs in threads, one at a time for each."""

    kind = "threads of one's own"

    def __init__(self, threads: int, handle: Handler[Any]) -> None:
        self.workers, self._handle = threads, handle
        self._threads, self._tickets = ThreadPoolExecutor(threads), 0
        self._ended: queue.SimpleQueue[Ended[Any]] = queue.SimpleQueue()
        self._futures: dict[int, Future[None]] = {}

    def submit(self, job: Any, first: bool = False) -> int:
        """Take a job."""
        self._tickets += 1
        self._futures[self._tickets] = self._threads.submit(self._do, self._tickets, job)
        return self._tickets

    def _do(self, ticket: int, job: Any) -> None:
        self._ended.put(ended(self._handle, ticket, job))

    def next(self, seconds: float | None = None) -> Ended[Any] | None:
        """The next job that has ended."""
        while True:
            try:
                done = self._ended.get(timeout=seconds)
            except queue.Empty:
                return None
            if self._futures.pop(done.ticket, None) is not None:  # else it was cancelled
                return done

    def cancel(self, tickets: Iterable[int]) -> None:
        """Forget jobs."""
        for ticket in tickets:
            future = self._futures.pop(ticket, None)
            if future is not None:
                future.cancel()

    def close(self) -> None:
        """Wait for what is under way."""
        self._threads.shutdown(cancel_futures=True)
