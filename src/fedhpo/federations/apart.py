"""Clients whose task failed as a whole, done again one by one: one of them may have killed its worker."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedhpo.engine.executor import JobResult, Shares, TrainTask
from fedhpo.engine.pool import Done, Order


class Apart:
    """An order's jobs as orders of their own; their sums are put together as the worker would have done."""

    def __init__(self, order: Order, task: TrainTask, shares: Shares) -> None:
        self._order, self._rows = order, shares.rows
        width = 0 if order.output is None else order.output[1]
        alone = [
            replace(
                task,
                jobs=(replace(job, start=0),),
                stacked=False,
                shares=Shares((0,), (weight,), shares.clip),
            )
            for job, weight in zip(task.jobs, shares.weights, strict=True)
        ]
        starts = [order.starts[job.start] for job in task.jobs]
        self.orders = [Order(one, [start], (1, width)) for one, start in zip(alone, starts, strict=True)]
        self._ended: dict[Order, Done] = {}

    def take(self, done: Done) -> Done | None:
        """One of them has ended; once all have, the end of the whole order."""
        output = None if done.output is None else done.output.copy()
        self._ended[done.order] = replace(done, output=output, release=lambda: None)
        done.release()
        if len(self._ended) < len(self.orders):
            return None
        assert self._order.output is not None
        sums, results = np.zeros(self._order.output, np.float32), []
        for row, order in zip(self._rows, self.orders, strict=True):
            one = self._ended[order]
            results.append(JobResult(failure=one.failure) if one.failure else one.value[0])
            if one.output is not None and not results[-1].failure:
                sums[row] += one.output[0]
        return Done(self._order, results, sums, place=sums[0])
