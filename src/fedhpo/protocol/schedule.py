"""What every schedule does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search, Trial


@runtime_checkable
class Schedule(Protocol):
    """Starts, trains, scores and drops trials, and says which is best."""

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Spend the budget; the best trial is trained to the end and freshly scored."""

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """The rounds it will spend; raises `InputError` where the budget does not even begin to do."""

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able."""
