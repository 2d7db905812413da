"""The ledger: what was spent, against the budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import BudgetError
from fedhpo.protocol.federation import Cost, RoundReport, Scores

# Sums of epsilons are sums of floats: ten times 0.1 must fit into 1.
_SLACK = 1e-9


@dataclass(frozen=True)
class Budget:
    """The most that may be spent of each; None is no limit."""

    rounds: int | None = None
    client_rounds: int | None = None
    bytes_down: int | None = None
    bytes_up: int | None = None
    samples: int | None = None
    evaluations: int | None = None
    seconds: float | None = None
    epsilon: float | None = None

    def __post_init__(self) -> None:
        for name, limit in asdict(self).items():
            if limit is not None and not limit >= 0:
                raise InputError(f"budget {name} must be at least 0, not {limit}")


class Ledger:
    """Rounds, client-rounds, bytes, samples, evaluations, epsilon and wall time spent.

    Where the federation simulates time, `simulated_seconds` is how late it is there.

    While a run is replayed, the ledger stands where it stood then: a method that looks at it takes
    the same decisions again.

    >>> ledger = Ledger(Budget(rounds=2))
    >>> ledger.charge(Cost(rounds=1, bytes_up=80), seconds=0.5)
    >>> ledger.spent["rounds"], ledger.remaining["rounds"], ledger.remaining["bytes_up"]
    (1, 1, None)
    >>> ledger.require(Cost(rounds=2))
    Traceback (most recent call last):
    ...
    fedhpo.errors.BudgetError: rounds: 2 more would exceed the budget of 2 (1 spent)
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.cost = Cost()
        self.seconds = 0.0
        self.epsilon = 0.0
        self.simulated_seconds = 0.0
        #: What was spent on the ends of smaller totals, which are done anew: on top, not against the budget.
        self.earlier: dict[str, float] = {}

    def charge(self, cost: Cost | None = None, *, seconds: float = 0.0, epsilon: float = 0.0) -> None:
        """Add what a call cost; never refuses, see `require`."""
        if cost is not None:
            self.cost = self.cost + cost
        self.seconds += seconds
        self.epsilon += epsilon

    def reach(self, time: float) -> None:
        """It is at least so late, by simulated time."""
        self.simulated_seconds = max(self.simulated_seconds, time)

    def pass_time(self, items: Iterable[Any]) -> None:
        """Let simulated time pass, by reports of rounds and by scores.

        >>> ledger = Ledger()
        >>> ledger.reach(60.0)
        >>> ledger.pass_time([])
        >>> ledger.spent["simulated_seconds"]
        60.0
        """
        waited = 0.0
        for item in items:
            if isinstance(item, RoundReport) and item.span is not None:
                self.reach(item.span[1])
            elif isinstance(item, Scores):
                waited = max(waited, item.seconds)
        self.simulated_seconds += waited

    @property
    def spent(self) -> dict[str, float]:
        """What was spent, by the names of the budget."""
        simulated = {"simulated_seconds": self.simulated_seconds} if self.simulated_seconds else {}
        return {**asdict(self.cost), "seconds": self.seconds, "epsilon": self.epsilon, **simulated}

    @property
    def remaining(self) -> dict[str, float | None]:
        """What is left, by the names of the budget; None where there is no limit."""
        spent = self.spent
        limits = {f.name: getattr(self.budget, f.name) for f in fields(Budget)}
        return {name: None if limit is None else limit - spent[name] for name, limit in limits.items()}

    def fits(self, cost: Cost | None = None, *, seconds: float = 0.0, epsilon: float = 0.0) -> bool:
        """Whether this could still be paid."""
        return self._excess(cost or Cost(), seconds, epsilon) is None

    def require(self, cost: Cost | None = None, *, seconds: float = 0.0, epsilon: float = 0.0) -> None:
        """Refuse, with a `BudgetError`, what cannot be paid any more."""
        excess = self._excess(cost or Cost(), seconds, epsilon)
        if excess:
            raise BudgetError(excess)

    def _excess(self, cost: Cost, seconds: float, epsilon: float) -> str | None:
        asked: dict[str, float] = {**asdict(cost), "seconds": seconds, "epsilon": epsilon}
        spent = self.spent
        for name, more in asked.items():
            limit = getattr(self.budget, name)
            if limit is not None and more > 0 and spent[name] + more > limit * (1 + _SLACK):
                return f"{name}: {more:g} more would exceed the budget of {limit:g} ({spent[name]:g} spent)"
        return None

    def to_dict(self) -> dict[str, Any]:
        """What was spent and the budget, JSON-able."""
        return {"spent": self.spent, "budget": asdict(self.budget)}
