"""Local trainings to tasks: stacked where that is faster, in small groups or one by one otherwise.

The plan follows the work alone, never the number of workers or a timing, so that results repeat.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedhpo.engine.executor import Job, Shares, TrainTask
from fedhpo.engine.fold import together
from fedhpo.engine.rows import RowLayout
from fedhpo.engine.stacked import stacks


@dataclass(frozen=True)
class Member:
    """A job to plan. `stack` is its batch size and number of steps if it may be stacked, else None.

    `share` is the round to whose sum its update is added at the worker, and the weight there; None if the
    update itself is needed. `rows` says how the updates of its round are summed by rows. `seconds` are
    nominal (`fedhpo.engine.effort`).
    """

    job: Job
    shape: str
    parameters: int
    scores: tuple[str, ...]
    stack: tuple[int, int] | None
    share: tuple[int, float] | None = None
    rows: RowLayout | None = None
    seconds: float = 0.0


def plan(
    members: Sequence[Member], device: str = "cpu", clip: float | None = None
) -> list[tuple[TrainTask, list[int]]]:
    """Tasks, each with the positions of the members that it trains; stacks come first."""
    kinds: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for i, member in enumerate(members):
        if member.stack is not None:
            kinds.setdefault((member.shape, member.scores), []).append(i)
    tasks = []
    stacked: set[int] = set()
    for chosen in kinds.values():
        sizes = [stack for i in chosen if (stack := members[i].stack) is not None]
        for rows in stacks(sizes, members[chosen[0]].parameters, device):
            inside = [chosen[row] for row in rows]
            tasks.append((_task(members, inside, clip, stacked=True), inside))
            stacked.update(inside)
    # What is left is cut by the round's size, never by the number of workers: a sum over groups has other
    # bits than one over single updates, so that groups must be the same wherever the round is trained.
    for inside in _groups(members, [i for i in range(len(members)) if i not in stacked]):
        tasks.append((_task(members, inside, clip), inside))
    return tasks


def _groups(members: Sequence[Member], alone: Sequence[int]) -> list[list[int]]:
    """Neighbours of one round, whose updates are added up, a few together; all others alone."""
    found = []
    for number, run in itertools.groupby(alone, key=lambda i: _round(members[i])):
        inside = list(run)
        few = 1 if number is None else together(len(inside))
        found += [inside[i : i + few] for i in range(0, len(inside), few)]
    return found


def _round(member: Member) -> int | None:
    return None if member.share is None else member.share[0]


def _task(
    members: Sequence[Member], inside: Sequence[int], clip: float | None, stacked: bool = False
) -> TrainTask:
    first = members[inside[0]]
    jobs = tuple(replace(members[i].job, start=start) for start, i in enumerate(inside))
    shares = [share for i in inside if (share := members[i].share) is not None]
    # A worker returns one sum a round in place of all updates, which are most of the traffic of a large
    # model. It can do so only where nobody looks at single updates.
    sums = None
    if len(shares) == len(inside):
        rounds = list(dict.fromkeys(number for number, _ in shares))
        sums = Shares(tuple(rounds.index(n) for n, _ in shares), tuple(w for _, w in shares), clip)
    return TrainTask(first.shape, jobs, first.scores, stacked, shares=sums, rows=first.rows)
