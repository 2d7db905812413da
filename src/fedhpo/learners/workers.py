"""Workers for learners: one single-threaded process per core, or none: then work is done when asked for."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

from fedhpo.data import FederatedData
from fedhpo.learners.tasks import Bench, Task
from fedhpo.workers.memory import SharedArray
from fedhpo.workers.pool import Handler, Inline, Pool, ray_workers
from fedhpo.workers.processes import Processes, WorkersUnavailable, pickled
from fedhpo.workers.shared_data import open_data, share_data


def start_workers(bench: Bench, count: int, ray: str | None = None, wanted: int | None = None) -> Pool[Task]:
    """Start so many processes, or none; none as well, with a warning, if they could not do the work.

    `ray` is the address of a Ray cluster whose workers take their place: `wanted`, or one for each core.
    """
    if ray is not None:
        return ray_workers(ray, wanted, _prepare_whole, bench)
    if count:
        try:
            return PartyProcesses(bench, count)
        except WorkersUnavailable as error:
            warnings.warn(f"learners are trained in this process, not in workers: {error}", stacklevel=3)
    return Inline(_handler(bench), around=_one_thread)


class PartyProcesses(Processes[Task]):
    """Spawned processes; the parties' rows reach them through one file, once."""

    def __init__(self, bench: Bench, count: int) -> None:
        own = pickled(bench.learner)
        data, self._file = share_data(bench.data)
        try:
            super().__init__(count, _prepare, own, data)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        super().close()
        self._file.close()


def _prepare_whole(bench: Bench) -> Handler[Task]:
    return _handler(bench)


def _prepare(learner: Any, data: tuple[FederatedData, dict[str, SharedArray]]) -> Handler[Task]:
    return _handler(Bench(learner, open_data(*data)))


def _handler(bench: Bench) -> Handler[Task]:
    return lambda task: task.run(bench)


def _one_thread() -> AbstractContextManager[Any]:
    """As in a worker process, whose environment says so."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits
