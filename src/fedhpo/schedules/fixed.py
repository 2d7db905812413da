"""The fixed schedule: every trial trains to the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.schedules.recommend import recommended_by

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


@dataclass(frozen=True)
class FixedLength:
    """`trials` trials of full length, `side_by_side` at a time; as many as the total pays for by default.

    A sampler that learns from scores needs a small `side_by_side`: trials that are started together
    know nothing of each other.
    """

    trials: int | None = None
    side_by_side: int = 32

    #: Every trial is scored once.
    compares_often: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self)
        if self.trials is not None and self.trials < 1:
            raise InputError(f"trials must be at least 1, not {self.trials}")
        if self.side_by_side < 1:
            raise InputError(f"side_by_side must be at least 1, not {self.side_by_side}")

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Train all trials, score each once at its end, take the best."""
        for _ in search.stages():
            left = self.count(search, sampler) - len(search.trials)
            while left > 0:
                trials = search.start(min(left, self.side_by_side), sampler, policy)
                if not trials:
                    break
                left -= len(trials)
                search.train(trials, search.rounds)
                search.evaluate(trials)
                search.finish(trials, recommended_by(search, sampler))
        return search.best()

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised; empty if it can."""
        if self.trials is not None:
            return f"trials = {self.trials} is trained whatever the total; left out, it follows the total"
        return (
            "" if new // rounds > old // rounds else f"that pays for no further training of {rounds} rounds"
        )

    def count(self, search: Search, sampler: Sampler) -> int:
        """How many trials there will be."""
        affordable = search.total // search.rounds
        if affordable < 1:
            raise InputError(
                f"a total of {search.total} rounds does not pay for one training of {search.rounds}"
            )
        wanted = affordable if self.trials is None else self.trials
        if wanted > affordable:
            raise InputError(
                f"{wanted} trials of {search.rounds} rounds need a total of {wanted * search.rounds} rounds, "
                f"not {search.total}"
            )
        return search.distinct(wanted, sampler)

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """Number of trials times their length."""
        return self.count(search, sampler) * search.rounds

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "fixed", **asdict(self)}
