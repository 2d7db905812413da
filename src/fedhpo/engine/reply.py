"""Replies of clients that resolved a rule themselves: without anything that reveals its inputs."""

from __future__ import annotations

from dataclasses import replace

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.engine.executor import NAN, JobResult


def discreet(result: JobResult, aggregation: Aggregation) -> JobResult:
    """A client's reply without its profile and without the hyperparameters that it chose.

    The samples that it trained on would tell its epochs: one pass is counted. Where updates weigh the same,
    nobody needs its size: it says neither how many rows it trains on, nor on how many it validates, nor its
    accuracy, which is a share of so many.

    >>> own = JobResult(train_size=80, validation_size=10, loss_before=0.5, samples=400)
    >>> sized = discreet(own, Aggregation("size"))
    >>> sized.train_size, sized.validation_size, sized.samples
    (80, 10, 80)
    >>> alike = discreet(own, Aggregation("uniform"))
    >>> alike.train_size, alike.validation_size, alike.samples
    (0, 1, 0)
    """
    if aggregation.by_size:
        return replace(result, samples=result.train_size)
    return replace(
        result,
        train_size=0,
        validation_size=min(result.validation_size, 1),
        samples=0,
        accuracy_before=NAN,
        accuracy_after=NAN,
    )
