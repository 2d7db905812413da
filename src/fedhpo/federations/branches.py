"""Sums of large updates, taken by workers on the way to the server: a tree of tasks for each round.

The tree follows the work, never the workers, so that sums are the same bits wherever they are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedhpo.engine.executor import AddTask
from fedhpo.engine.fold import TOGETHER
from fedhpo.engine.pool import Done, Order

#: How often a sum is begun: what it adds up may be lost with the machine that holds it.
ATTEMPTS = 2


@dataclass(eq=False)
class Branch:
    """Tasks, or sums of tasks, whose outputs are added up in their order once all are there."""

    parts: Sequence[Order | Branch]
    above: Branch | None = None
    attempts: int = 0
    ended: dict[Order | Branch, Done] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Order]:
        """The tasks below, in their order."""
        return [one for part in self.parts for one in ([part] if isinstance(part, Order) else part.leaves)]

    def results(self) -> list[Done]:
        """The ends of the tasks below, in their order."""
        below = (part.results() if isinstance(part, Branch) else [self.ended[part]] for part in self.parts)
        return [done for some in below for done in some]

    def cut(self) -> None:
        """Let go of all below: a branch and those on it refer to each other, and tasks to weights."""
        for part in self.parts:
            if isinstance(part, Branch):
                part.above = None
                part.cut()
        self.parts = ()
        self.ended.clear()


@dataclass(frozen=True)
class Whole:
    """A round's tasks, all ended, and the sum of their outputs; `total.failure` says if there is none."""

    ends: Sequence[Done]
    total: Done


class Branches:
    """The trees of the rounds under way."""

    def __init__(self) -> None:
        #: By a task, the branch that its output belongs to; by one that adds up, the branch that it ends.
        self._holds: dict[Order, Branch] = {}
        self._adds: dict[Order, Branch] = {}

    def plant(self, orders: Sequence[Order]) -> None:
        """Add up the outputs of these orders, which are still to be submitted."""
        parts: Sequence[Order | Branch] = orders
        while len(parts) > 1 or isinstance(parts[0], Order):
            grown = [Branch(parts[i : i + TOGETHER]) for i in range(0, len(parts), TOGETHER)]
            for branch in grown:
                self._hold(branch)
            parts = grown

    def _hold(self, branch: Branch) -> None:
        for part in branch.parts:
            if isinstance(part, Order):
                self._holds[part] = branch
                part.kept = True
            else:
                part.above = branch

    def __contains__(self, order: Order) -> bool:
        return order in self._holds or order in self._adds

    def take(self, done: Done) -> tuple[Whole | None, list[Order]]:
        """An order of a tree has ended; once all of its tree have, the whole. Else what to do next."""
        branch = self._adds.pop(done.order, None)
        if branch is None:
            branch = self._holds.pop(done.order)
            branch.ended[done.order] = done
        else:
            for part in branch.ended.values():
                part.release()
            if done.failure and branch.attempts + 1 < ATTEMPTS:
                return None, self._again(branch)
            return self._up(branch, done)
        return self._add(branch)

    def _add(self, branch: Branch) -> tuple[Whole | None, list[Order]]:
        """Add up the branch's parts, if all are there."""
        if len(branch.ended) < len(branch.parts):
            return None, []
        usable = [branch.ended[part] for part in branch.parts if branch.ended[part].place is not None]
        if len(usable) < 2:  # the sum is the one that came, if any
            failure = next(iter(branch.ended.values())).failure
            return self._up(branch, usable[0] if usable else Done(branch.leaves[0], failure=failure))
        order = Order(AddTask(), [], usable[0].order.output, usable, kept=branch.above is not None)
        self._adds[order] = branch
        return None, [order]

    def _up(self, branch: Branch, total: Done) -> tuple[Whole | None, list[Order]]:
        if branch.above is None:
            whole = Whole(branch.results(), total)
            branch.cut()
            return whole, []
        branch.above.ended[branch] = total
        return self._add(branch.above)

    def _again(self, branch: Branch) -> list[Order]:
        """Do all below once more: it gives the same."""
        branch.attempts += 1
        below = [branch]
        while below:
            one = below.pop()
            one.ended.clear()
            self._hold(one)
            below += [part for part in one.parts if isinstance(part, Branch)]
        return branch.leaves

    def clear(self) -> None:
        """Forget them all."""
        self._holds.clear()
        self._adds.clear()
