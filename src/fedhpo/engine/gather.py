"""A round under way: updates arrive in any order and are added up in a fixed one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.aggregation import Aggregate
from fedhpo.core.vectors import Vector
from fedhpo.engine.executor import JobResult
from fedhpo.engine.flat import check_update
from fedhpo.engine.products import UpdateProducts
from fedhpo.protocol.federation import Status


@dataclass(eq=False)
class Gathering:
    """Results of a cohort's members. Updates are added in `sequence`, so that the sum always is the same.

    `limits` are the training and validation rows that each member may claim; the rest is cut off.
    """

    size: int
    sequence: deque[int]
    aggregate: Aggregate
    status: NDArray[np.int8]
    results: list[JobResult]
    limits: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    reasons: dict[int, str] = field(default_factory=dict)
    products: UpdateProducts | None = None
    _waiting: dict[int, tuple[JobResult, Vector | None, Callable[[], None]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        size: int,
        sequence: list[int],
        aggregate: Aggregate,
        missing: NDArray[np.bool_],
        products: UpdateProducts | None = None,
        limits: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    ) -> Gathering:
        """For updates of `size` numbers from the members in `sequence`; the others are missing."""
        status = np.where(missing, Status.MISSING, Status.OK).astype(np.int8)
        reasons = {int(i): "no reply" for i in np.flatnonzero(missing)}
        results = [JobResult()] * len(missing)
        return cls(size, deque(sequence), aggregate, status, results, limits, reasons, products)

    @property
    def complete(self) -> bool:
        """Whether every member that can reply has."""
        return not self.sequence

    def take(
        self,
        member: int,
        result: JobResult,
        update: Vector | None = None,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        """A member's result; once those before it in the sequence are in, it is added and released."""
        self._waiting[member] = result, update, release
        while self.sequence and self.sequence[0] in self._waiting:
            member = self.sequence.popleft()
            result, update, release = self._waiting.pop(member)
            self._add(member, result, update)
            release()

    def reject(self, why: str) -> None:
        """No update can be used after all."""
        for member in np.flatnonzero(self.status == Status.OK).tolist():
            self.status[member], self.reasons[member] = Status.FAILED, why
            self.results[member] = JobResult()

    def _add(self, member: int, result: JobResult, update: Vector | None) -> None:
        problem: str | None = result.failure
        if not problem:
            problem = "no update came" if update is None else check_update(update, self.size)
        if problem or update is None:
            self.status[member], self.reasons[member] = Status.FAILED, problem or ""
        else:
            if self.limits is not None:
                rows, held = (int(limit[member]) for limit in self.limits)
                sizes = min(result.train_size, rows), min(result.validation_size, held)
                result = replace(result, train_size=sizes[0], validation_size=sizes[1])
            with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is looked at in the end
                self.aggregate.add(update, result.train_size, member)
            if self.products is not None:
                self.products.add(member, update)
            self.results[member] = result
