"""Local trainings to tasks: stacked where that is faster, one by one otherwise.

The plan follows the work alone, never the number of workers or a timing, so that results repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedhpo.engine.executor import Job, TrainTask
from fedhpo.engine.stacked import stacks


@dataclass(frozen=True)
class Member:
    """A job to plan. `stack` is its batch size and number of steps if it may be stacked, else None."""

    job: Job
    shape: str
    parameters: int
    scores: tuple[str, ...]
    stack: tuple[int, int] | None


def plan(members: Sequence[Member], device: str = "cpu") -> list[tuple[TrainTask, list[int]]]:
    """Tasks, each with the positions of the members that it trains; stacks come first."""
    kinds: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for i, member in enumerate(members):
        if member.stack is not None:
            kinds.setdefault((member.shape, member.scores), []).append(i)
    tasks = []
    stacked: set[int] = set()
    for (shape, scores), chosen in kinds.items():
        sizes = [stack for i in chosen if (stack := members[i].stack) is not None]
        for rows in stacks(sizes, members[chosen[0]].parameters, device):
            inside = [chosen[row] for row in rows]
            jobs = tuple(replace(members[i].job, start=start) for start, i in enumerate(inside))
            tasks.append((TrainTask(shape, jobs, scores, stacked=True), inside))
            stacked.update(inside)
    for i, member in enumerate(members):
        if i not in stacked:
            tasks.append((TrainTask(member.shape, (member.job,), member.scores), [i]))
    return tasks
