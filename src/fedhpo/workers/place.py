"""Where parties are asked: a place makes a pool of workers, wherever these run.

`[place]` of a study names one: ours, or a class of yours as `package.module:Name`. Its fields are its
settings. `fedhpo.testing.place` has the suite that a place passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fedhpo.core.errors import InputError
from fedhpo.core.registry import Registry
from fedhpo.core.settings import check_settings
from fedhpo.workers.pool import Handler, Inline, Pool, ray_workers
from fedhpo.workers.processes import Processes, pickled
from fedhpo.workers.spawn import cores


class Place(Protocol):
    """Where jobs are done; a frozen dataclass whose fields are its settings."""

    def open(self, prepare: Callable[[], Handler[Any]]) -> Pool[Any]:
        """A pool whose workers each begin with `prepare()`, which makes what does a job.

        `prepare` and jobs can be pickled. A job may be done by any worker, and jobs in any order.
        """


@dataclass(frozen=True)
class InProcess:
    """In this process, one job after the other.

    >>> pool = InProcess().open(lambda: lambda job: 2 * job)
    >>> ticket = pool.submit(21)
    >>> pool.next().value
    42
    """

    def open(self, prepare: Callable[[], Handler[Any]]) -> Pool[Any]:
        """No worker at all."""
        return Inline(prepare())


@dataclass(frozen=True)
class InWorkers:
    """In so many processes on this machine, one for each core by default."""

    count: int | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.count is not None and self.count < 1:
            raise InputError(f"count must be at least 1, not {self.count}")

    def open(self, prepare: Callable[[], Handler[Any]]) -> Pool[Any]:
        """Processes that are spawned."""
        return Processes(self.count or cores(), _begun, pickled(prepare))


@dataclass(frozen=True)
class OnRay:
    """On a Ray cluster: "auto" for one that runs on this machine, or its address."""

    address: str = "auto"
    count: int | None = None

    def open(self, prepare: Callable[[], Handler[Any]]) -> Pool[Any]:
        """Actors, one for each core of the cluster by default."""
        return ray_workers(self.address, self.count, prepare)


def _begun(prepare: Callable[[], Handler[Any]]) -> Handler[Any]:
    return prepare()


places: Registry[type[Place]] = Registry(
    "place", {"process": InProcess, "workers": InWorkers, "ray": OnRay}, word="place"
)


def place_for(workers: int | None, ray: str | None) -> Place:
    """The place that `workers` and `ray` of `fedhpo.Study.federation` mean."""
    if ray is not None:
        return OnRay(ray, workers)
    return InProcess() if workers == 0 else InWorkers(workers)
