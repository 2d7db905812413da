"""A round under way: updates arrive in any order and are added up in a fixed one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.aggregation import Aggregate
from fedhpo.core.vectors import Vector
from fedhpo.engine.executor import JobResult
from fedhpo.engine.flat import check_update
from fedhpo.engine.products import UpdateProducts
from fedhpo.engine.rows import RowSum
from fedhpo.protocol.federation import Status
from fedhpo.protocol.reasons import Reason, Why, ours


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
    reasons: dict[int, Reason] = field(default_factory=dict)
    products: UpdateProducts | None = None
    #: Of updates by rows, for each table the sum of the multiples of its start; and the weight of all.
    shared: NDArray[np.float64] | None = None
    weight: float = 0.0
    _waiting: dict[int, Callable[[], None]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        size: int,
        sequence: list[int],
        aggregate: Aggregate,
        missing: NDArray[np.bool_],
        products: UpdateProducts | None = None,
        limits: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
        why: Mapping[int, Reason] | None = None,
    ) -> Gathering:
        """For updates of `size` numbers from the members in `sequence`; the others are missing: `why`."""
        status = np.where(missing, Status.MISSING, Status.OK).astype(np.int8)
        silent = ours(Why.DROPPED, "no reply")
        reasons = {int(i): (why or {}).get(int(i), silent) for i in np.flatnonzero(missing)}
        results = [JobResult()] * len(missing)
        return cls(size, deque(sequence), aggregate, status, results, limits, reasons, products)

    def arrange(self, units: Sequence[Sequence[int]]) -> None:
        """Before anything comes: the members whose updates come together, in the order of the sum.

        Members that stand alone, and those that stand for others, keep the order that they had.
        """
        place = {member: i for i, member in enumerate(self.sequence)}
        self.sequence = deque(sorted((unit[0] for unit in units), key=place.__getitem__))

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

        def add() -> None:
            self._add(member, result, update)
            release()

        self._come(member, add)

    def take_sum(
        self,
        members: Sequence[int],
        results: Sequence[JobResult],
        total: Vector | RowSum,
        weights: Sequence[float],
        release: Callable[[], None] = lambda: None,
    ) -> None:
        """The results of several members, and the sum of their updates, each times its weight.

        The first of them stands in the sequence for all.
        """

        def add() -> None:
            self._add_sum(members, results, total, weights)
            release()

        self._come(members[0], add)

    def _come(self, member: int, add: Callable[[], None]) -> None:
        # Floating-point sums depend on their order, and workers finish in any order: what comes early waits
        # for those before it, so that the sum has the same bits with 0 workers and with 64.
        self._waiting[member] = add
        while self.sequence and self.sequence[0] in self._waiting:
            self._waiting.pop(self.sequence.popleft())()

    def reject(self, why: Reason) -> None:
        """No update can be used after all."""
        for member in np.flatnonzero(self.status == Status.OK).tolist():
            self.status[member], self.reasons[member] = Status.FAILED, why
            self.results[member] = JobResult()

    def _limited(self, member: int, result: JobResult) -> JobResult:
        """A member's result with no more rows than it may claim."""
        if self.limits is None:
            return result
        rows, held = (int(limit[member]) for limit in self.limits)
        sizes = min(result.train_size, rows), min(result.validation_size, held)
        return replace(result, train_size=sizes[0], validation_size=sizes[1])

    def _add_sum(
        self,
        members: Sequence[int],
        results: Sequence[JobResult],
        total: Vector | RowSum,
        weights: Sequence[float],
    ) -> None:
        weight = 0.0
        for member, result, own in zip(members, results, weights, strict=True):
            if result.failure:
                self.status[member], self.reasons[member] = Status.FAILED, result.failure
            else:
                self.results[member] = self._limited(member, result)
                weight += own
        if not weight:
            return
        self.weight += weight
        # An overflow is no error yet: the finished sum is checked, and rejected with a reason.
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(total, RowSum):
                self.aggregate.add_part(total.add_to, self.size, weight)
                known = np.zeros(len(total.shared)) if self.shared is None else self.shared
                self.shared = known + total.shared.astype(np.float64)
            else:
                self.aggregate.add_sum(total, weight)

    def _add(self, member: int, result: JobResult, update: Vector | None) -> None:
        problem = result.failure
        if problem is None:
            problem = Reason(Why.NO_UPDATE) if update is None else check_update(update, self.size)
        if problem is not None or update is None:
            self.status[member], self.reasons[member] = Status.FAILED, problem or Reason(Why.NO_UPDATE)
        else:
            result = self._limited(member, result)
            with np.errstate(over="ignore", invalid="ignore"):  # the result is checked at the end
                self.aggregate.add(update, result.train_size, member)
            if self.products is not None:
                self.products.add(member, update)
            self.results[member] = result
