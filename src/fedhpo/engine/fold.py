"""The order in which a round's updates are added up: it follows the work, never the place.

Sums of floats depend on their order. A simulation lets workers add up a few updates each, and sums of large
ones by four (`fedhpo.federations.branches`); where clients are asked by messages the server takes the same
sums in the same order, so that the model is the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedhpo.aggregation.aggregation import Aggregate, Aggregation
from fedhpo.aggregation.norm_clipping import clip_scale
from fedhpo.core.vectors import Vector

#: Members of a task that is not stacked, at most, and tasks that a round has at least: with fewer of them
#: workers would wait for each other.
MOST_TOGETHER = 8
FEWEST_TASKS = 16
#: Numbers from which on an update is worth a message to the worker that adds it up.
LARGE = 500_000
#: Outputs that are added up at once; as many lie in memory until the last of them is there.
TOGETHER = 4


def together(members: int) -> int:
    """How many members of a round are added up in one task, where so many are not stacked.

    >>> [together(members) for members in (3, 31, 32, 40, 128, 1000)]
    [1, 1, 2, 2, 8, 8]
    """
    return max(1, min(MOST_TOGETHER, members // FEWEST_TASKS))


def folds(members: int, size: int) -> bool:
    """Whether a round's updates of so many numbers are not just added one after the other."""
    return together(members) > 1 or (size >= LARGE and members > TOGETHER)


class Folded(Aggregate):
    """A weighted mean whose updates come in `sequence`, and are added as a simulation adds them.

    >>> numbers = np.random.default_rng(0).normal(size=(40, 1)).astype(np.float32)
    >>> mean = Folded(Aggregation("uniform"), range(40), 1)
    >>> for member, update in enumerate(numbers):
    ...     mean.add(update, 1, member)
    >>> bool(np.isclose(mean.mean()[0], numbers.mean()))
    True
    """

    def __init__(self, how: Aggregation, sequence: Sequence[int], size: int) -> None:
        super().__init__(how)
        few = together(len(sequence))
        self._group = {member: place // few for place, member in enumerate(sequence)}
        groups = -(-len(sequence) // few)
        #: Sums of four, of sixteen and so on, each with the number that it has among its likes.
        self._open: list[tuple[int, Vector] | None] = []
        if size >= LARGE:
            levels = 1
            while TOGETHER**levels < groups:
                levels += 1
            self._open = [None] * levels
        self._at, self._task = -1, np.zeros(0, np.float32)
        self._task_weight = self._whole_weight = 0.0

    def add(self, update: Vector, size: int, member: int = 0) -> None:
        """Add the update of a member; those before it in the sequence have come."""
        if self._group[member] != self._at:
            self._end_task()
            self._at, self._task = self._group[member], np.zeros(len(update), np.float32)
        how = self._how
        weight, scale = how.weight(size), 1.0 if how.clip_norm is None else clip_scale(update, how.clip_norm)
        # As a worker adds it: torch multiplies and adds with one rounding, numpy with two.
        torch.from_numpy(self._task).add_(torch.from_numpy(update), alpha=scale * weight)
        self._task_weight += weight

    def _end_task(self) -> None:
        if self._at < 0:
            return
        if self._open:
            self._whole_weight += self._task_weight
            self._up(0, self._at, self._task)
        else:
            self.add_sum(self._task, self._task_weight)
        self._at, self._task_weight = -1, 0.0

    def _up(self, level: int, number: int, total: Vector) -> None:
        """Add a sum to the one of four that it belongs to; the one before that goes a level up."""
        if level == len(self._open):
            self.add_sum(total, self._whole_weight)
            return
        held, block = self._open[level], number // TOGETHER
        if held is not None and held[0] == block:
            np.add(held[1], total, out=held[1])
            return
        self._open[level] = block, total
        if held is not None:
            self._up(level + 1, *held)

    def mean(self) -> Vector:
        """The updates put together."""
        self._end_task()
        for level in range(len(self._open)):
            held, self._open[level] = self._open[level], None
            if held is not None:
                self._up(level + 1, *held)
        return super().mean()
