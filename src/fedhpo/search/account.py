"""Who is asked for a private release, and how many parts of epsilon that takes.

With "basic" accounting clients are drawn anew for every release, and every client is charged for every
release. With rotation (and "pld", which composes what rotation asks of one client) cohorts follow each other
through one fixed order of the clients, and a client is charged for the releases that asked it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedhpo.core.run_errors import BudgetError
from fedhpo.privacy.caps import ClientCaps
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.rotation import next_clients, rotation_order, weights_of_choice, weights_of_values
from fedhpo.protocol.federation import Ints, Scores

if TYPE_CHECKING:
    from fedhpo.search.search import Search

#: No cap: while a run is planned.
_ENDLESS = 2**62


@dataclass(frozen=True)
class Asked:
    """The cohort of each trial, None where they are drawn anew; and the parts of epsilon that it takes.

    `weights` are the parts that it takes of each client asked, or of everybody; `clients` how many are to be
    drawn where that is not said by cohorts.
    """

    cohorts: list[Ints] | None
    parts: int
    weights: Mapping[int, int] | int
    clients: int | None = None

    def evaluated(
        self, evaluate: Callable[[Sequence[int], Ints], list[Scores]], trials: Sequence[int]
    ) -> list[Scores | None]:
        """The scores that `evaluate` gives of each trial at its own cohort; None where nobody is asked."""
        assert self.cohorts is not None
        found: list[Scores | None] = []
        for _, group in groupby(zip(trials, self.cohorts, strict=True), key=lambda pair: id(pair[1])):
            together = list(group)  # those of one cohort
            cohort = together[0][1]
            numbers = [trial for trial, _ in together]
            found += evaluate(numbers, cohort) if len(cohort) else [None] * len(numbers)
        return found

    def to_key(self) -> dict[str, Any]:
        """As the record keeps it before anything is drawn: who was asked about each trial."""
        if self.cohorts is None:
            return {}
        together = all(cohort is self.cohorts[0] for cohort in self.cohorts)
        kept = [self.cohorts[0]] if together else self.cohorts
        return {"asked": [cohort.tolist() for cohort in kept]}


class Account(Protocol):
    """What private channels pay with."""

    #: Into how many parts epsilon is divided; None where nobody said.
    parts: int | None
    #: How often each client was looked at inside rounds.
    looked: Counter[int]
    #: How often one client may be.
    looks: int

    def ask(self, search: Search, trials: int, *, values: bool, looks: int = 1) -> Asked:
        """Who is asked for a release about so many trials: their values, or a choice among them.

        A choice may pool several `looks`, each at other clients: at all of them where there are no more.
        """

    def able(self, search: Search, members: Iterable[int], looks: int) -> list[int]:
        """Those members of a cohort that may be looked at so often inside a round."""

    def hear(self, search: Search, members: Sequence[int], looks: int) -> int:
        """Count looks at the members of a cohort; returns the parts of epsilon that they take."""

    def to_dict(self) -> dict[str, Any] | None:
        """What each client took part in; None where all are charged for everything."""


class BasicAccount:
    """Every client is charged for every release, and for the looks inside rounds of the one with most."""

    def __init__(self, releases: int | None, looks: int | None = None) -> None:
        self.parts = releases
        self.looks = releases or 0 if looks is None else looks
        self.looked: Counter[int] = Counter()

    def ask(self, search: Search, trials: int, *, values: bool, looks: int = 1) -> Asked:
        """The evaluator draws."""
        parts = trials if values else 1
        return Asked(None, parts, parts, pooled(search, looks))

    def able(self, search: Search, members: Iterable[int], looks: int) -> list[int]:
        """Who was not looked at as often as planned."""
        return [member for member in members if self.looked[member] + looks <= self.looks]

    def hear(self, search: Search, members: Sequence[int], looks: int) -> int:
        """By how much the largest number of looks at one client rises."""
        before = max(self.looked.values(), default=0)
        self.looked.update(dict.fromkeys(members, looks))
        return max(self.looked.values(), default=0) - before

    def to_dict(self) -> None:
        """Nothing by client."""
        return


@dataclass(frozen=True)
class RotationPlan:
    """What a run may ask of its clients.

    `parts` is the most that all releases weigh for one client (m). `caps` are by place in the order of
    clients, where every place has its own; `kept` is what evaluations will weigh there, which looks inside
    rounds leave to them; `looks` is how often one client is looked at inside rounds.
    """

    parts: int
    caps: tuple[int, ...] | None = None
    kept: tuple[int, ...] = ()
    looks: int = 0


class RotationAccount:
    """A client is charged for the releases that asked it; the run for the client that was asked most.

    Without a `plan` it counts and refuses nothing. `order` is the order of clients, by the seed if it is
    left out.
    """

    def __init__(self, plan: RotationPlan | None = None, order: Ints | None = None) -> None:
        self.plan, self.order = plan, order
        self.parts = None if plan is None else plan.parts
        self.looks = _ENDLESS if plan is None else plan.looks
        self.caps = ClientCaps(_ENDLESS if plan is None else plan.parts)
        self.looked: Counter[int] = Counter()
        self._evaluated: Counter[int] = Counter()
        self._kept: dict[int, int] = {}
        self._place = 0
        self._size = 0

    def _begin(self, search: Search) -> Ints:
        """Give every place of the order its client, once it is known who there is."""
        if not self._size:
            clients = search.population
            self._size = search.evaluator.count(len(clients))
            if self.order is None:
                self.order = rotation_order(clients, search.seed)
            if self.plan is not None:
                numbers = self.order.tolist()
                self._kept = dict(zip(numbers, self.plan.kept, strict=False))
                if self.plan.caps is not None:
                    self.caps = ClientCaps(self.plan.parts, dict(zip(numbers, self.plan.caps, strict=True)))
        assert self.order is not None
        return self.order

    def ask(self, search: Search, trials: int, *, values: bool, looks: int = 1) -> Asked:
        """The next clients in the order: for all trials the same where they are paired, else for each others.

        Looks that are pooled ask clients one after the other in that order, nobody twice: whoever is asked
        counts once, and the release is one of weight 1 for it.

        A client at its cap is not asked. The release is refused where nobody is left to ask.
        """
        order = self._begin(search)
        paired = search.evaluator.pairs(values=values)
        size = pooled(search, looks)
        cohorts = [self._next(order, size) for _ in range(1 if paired else trials)]
        each = trials if paired and values else 1
        cohorts = self._below_caps(cohorts, each, repeats=values)
        if not any(len(cohort) for cohort in cohorts):
            assert search.evaluator.privacy is not None
            total = search.evaluator.privacy.epsilon
            raise BudgetError(
                f"epsilon: {total * each / self.caps.most:g} more would exceed the budget of {total:g}: all "
                "clients whose turn it is have taken part as often as planned"
            )
        cohorts = cohorts * trials if paired else cohorts
        weights = (weights_of_values if values else weights_of_choice)(cohorts)
        self._evaluated.update(weights)
        return Asked(cohorts, self.caps.take(weights), weights)

    def _next(self, order: Ints, size: int) -> Ints:
        found = next_clients(order, self._place, size)
        self._place += size
        return found

    def _below_caps(self, cohorts: Sequence[Ints], weight: int, *, repeats: bool) -> list[Ints]:
        """The cohorts without clients that are at their caps; one in several may reach it on the way."""
        found: list[Ints] = []
        pending: Counter[int] = Counter()
        for cohort in cohorts:
            asked = []
            for client in cohort.tolist():
                more = pending[client] + weight if repeats else weight
                if self.caps.able([client], more):
                    asked.append(client)
                    pending[client] = more
            found.append(np.array(asked, dtype=np.int64))
        return found

    def able(self, search: Search, members: Iterable[int], looks: int) -> list[int]:
        """Who is not at its cap, less what evaluations will ask of it."""
        self._begin(search)

        def kept(client: int) -> int:
            return max(0, self._kept.get(client, 0) - self._evaluated[client])

        return [member for member in members if self.caps.able([member], looks + kept(member))]

    def hear(self, search: Search, members: Sequence[int], looks: int) -> int:
        """The same ledger as that of evaluations."""
        self._begin(search)
        weights = dict.fromkeys(members, looks)
        self.looked.update(weights)
        return self.caps.take(weights)

    def planned(self, search: Search, extra: int = 0) -> RotationPlan:
        """The plan that what was counted so far comes to, with room for `extra` releases."""
        order = self._begin(search)
        unit = not self.looked and self._place == sum(self._evaluated.values())
        for _ in range(extra if unit else 0):
            self._evaluated.update(weights_of_values([self._next(order, self._size)]))
        extra = 0 if unit else extra
        weights = tuple(self._evaluated[client] for client in order.tolist())
        most = max((self._evaluated + self.looked).values(), default=0)
        looks = max(self.looked.values(), default=0) + extra
        return RotationPlan(max(1, most + extra), weights if unit else None, weights, looks)

    def to_dict(self) -> dict[str, Any]:
        """The releases that each client took part in, and the client with most of them."""
        taken = sorted(self.caps.taken.items())
        return {
            "planned": self.parts,
            "most": self.caps.largest,
            "client": self.caps.heaviest,
            "taken": [list(pair) for pair in taken],
        }


def pooled(search: Search, looks: int) -> int:
    """How many different clients so many looks ask together."""
    everybody = len(search.population)
    return min(everybody, looks * search.evaluator.count(everybody))


def account_of(privacy: Privacy, releases: int | None, looks: int | None = None) -> Account:
    """The account where no run was planned: then one client may be in all releases."""
    if privacy.accounting == "basic":
        return BasicAccount(releases, looks)
    if releases is None:
        return RotationAccount()
    return RotationAccount(RotationPlan(releases, looks=releases if looks is None else looks))
