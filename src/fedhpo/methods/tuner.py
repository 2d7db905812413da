"""A tuner is three choices: which trials train for how long, which configs to try, what clients get.

A population has an exchange between its trials besides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.core.errors import InputError
from fedhpo.core.fingerprint import code_of
from fedhpo.core.settings import settings_of, shown
from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.fedtune.table_policy import with_table
from fedhpo.policies import Fixed
from fedhpo.protocol.method import is_method, part_of_method
from fedhpo.protocol.policy import ClientPolicy, Preparing
from fedhpo.protocol.sampler import Sampler
from fedhpo.protocol.schedule import Schedule
from fedhpo.samplers import Random

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial
    from fedhpo.space import Space


@dataclass(frozen=True)
class Tuner:
    """`Schedule` x `Sampler` x `ClientPolicy`, and maybe an `Exchange`; every combination runs.

    >>> from fedhpo.schedules import Halving
    >>> Tuner(Halving(trials=9)).sampler
    Random()
    """

    schedule: Schedule
    sampler: Sampler = field(default_factory=Random)
    policy: ClientPolicy = field(default_factory=Fixed)
    exchange: Exchange | None = None
    #: Whether all trials train at the same clients in the same round.
    shared_cohorts: bool = False

    def __post_init__(self) -> None:
        for name, kind, needed in (
            ("schedule", "a schedule, such as fedhpo.schedules.Halving()", ("run", "rounds")),
            ("sampler", "a sampler, such as fedhpo.samplers.Random()", ("suggest",)),
            ("policy", "a client policy, such as fedhpo.policies.Fixed()", ("begin", "needs", "scores")),
        ):
            value = getattr(self, name)
            lacks = isinstance(value, type) or not all(hasattr(value, part) for part in needed)
            if lacks or is_method(value):
                raise InputError(f"{name} must be {kind}, not {shown(value)}{part_of_method(value, name)}")
        if self.exchange is not None and not isinstance(self.exchange, Exchange):
            raise InputError(
                f"exchange must be a fedhpo.methods.Exchange or None, not {shown(self.exchange)}"
            )

    name: ClassVar[str] = "tuner"
    #: Raised when the calls it makes change, so that a recorded run is not resumed by another method.
    number: ClassVar[int] = 1
    trains_once: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """What the federation must be able to do."""
        return self.policy.needs | (frozenset() if self.exchange is None else self.exchange.needs)

    def run(self, search: Search) -> Trial:
        """Tune; the best trial comes back."""
        search.exchange_by(self.exchange)
        search.shared_cohorts = self.shared_cohorts
        policy = self.policy.prepare(search) if isinstance(self.policy, Preparing) else self.policy
        return self.schedule.run(search, with_table(self.sampler, policy), policy)

    def rounds(self, search: Search) -> int:
        """The rounds it will spend."""
        before = self.policy.rounds_before if isinstance(self.policy, Preparing) else 0
        return before + self.schedule.rounds(search.less(before), with_table(self.sampler, self.policy))

    def cuts(self, search: Search) -> bool:
        """Whether trials are cut short by scores, and could as well be trained anew to go on."""
        sampler = with_table(self.sampler, self.policy)
        plain = self.exchange is None and isinstance(self.policy, Fixed)
        return plain and hasattr(self.schedule, "cuts") and bool(self.schedule.cuts(search, sampler))

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a run of it cannot go on from a total `old` to `new`; empty if it can."""
        if self.exchange is not None:
            return "the population trains side by side, and exchanges, from the first round on"
        if not hasattr(self.schedule, "refuses_more"):
            return f"{type(self.schedule).__name__} does not say how its plan goes on (`refuses_more`)"
        return str(self.schedule.refuses_more(old, new, rounds))

    def sections(self, search: Search) -> list[Any]:
        """What its parts add to the report, where they have `sections` too."""
        parts: tuple[Any, ...] = (self.schedule, self.sampler, self.policy, self.exchange)
        return [one for part in parts if hasattr(part, "sections") for one in part.sections(search)]

    def fingerprint(self, space: Space) -> dict[str, Any]:
        """What it is made of, where that is code of the user's own: see `fedhpo.core.fingerprint`."""
        parts = {"schedule": self.schedule, "sampler": self.sampler, "policy": self.policy}
        return {name: code_of(type(part)) for name, part in parts.items()}

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able."""
        return {
            "name": self.name,
            "schedule": settings_of(self.schedule),
            "sampler": settings_of(self.sampler),
            "policy": settings_of(self.policy),
            **({} if self.exchange is None else {"exchange": self.exchange.to_dict()}),
            **({"shared_cohorts": True} if self.shared_cohorts else {}),
        }
