"""What every schedule does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: Over how many rounds a trial that is cut short has its schedules (of learning rates, say): those of a full
#: training, so that it can go on; or those of its rung, so that it is trained anew to go on.
FULL, RUNG = HORIZONS = "full", "rung"


@runtime_checkable
class Schedule(Protocol):
    """Starts, trains, scores and drops trials, and says which is best.

    Its settings are found by `fedhpo.core.settings.settings_of`. A schedule that can go on with a larger
    total also has `refuses_more(old, new, rounds)`, see `fedhpo.protocol.method.Method`; one that plans with
    `search.anew`, where every rung begins its trials anew, has `cuts(search, sampler)`.
    """

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Spend the budget; the best trial is trained to the end and freshly scored."""

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """The rounds it will spend; raises `InputError` if the budget is too small to begin."""
