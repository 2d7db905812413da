"""How long a study will take, before it is run: its method is gone through on a clock, without training.

The clients' fleet says who is there when, how fast, and who fails; scores are drawn at random. Each draw has
another seed for the search and another one for the fleet: the range over draws is what luck does to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from fedhpo.core.settings import whole_number
from fedhpo.core.streams import derive
from fedhpo.protocol.federation import Federation, RoundReport, Status
from fedhpo.protocol.ledger import Budget
from fedhpo.search.unrecorded import UnrecordedSession
from fedhpo.tuning.conclusion import conclude
from fedhpo.tuning.setup import prepare


@dataclass(frozen=True)
class TimePlan:
    """What was found; `seconds` are those of each draw, all else is a mean over draws.

    `replies` are the shares of the clients' replies by what became of them, `round_seconds` the mean length
    of a round. `samples` are rows trained on, `evaluations` models scored by a client, `auto` what the method
    `auto` would take, and why.
    """

    seconds: Sequence[float]
    rounds: float
    round_seconds: float
    client_rounds: float
    bytes_down: float
    bytes_up: float
    replies: Mapping[str, float]
    samples: float
    evaluations: float
    epsilon: float | None
    auto: Mapping[str, str] | None

    @property
    def mean(self) -> float:
        """The seconds to expect."""
        return fmean(self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        low, high = min(self.seconds), max(self.seconds)
        return {"mean_seconds": self.mean, "least_seconds": low, "most_seconds": high, **asdict(self)}


class _Watched(UnrecordedSession):
    """A session that counts replies."""

    def __init__(self, federation: Federation, budget: Budget) -> None:
        super().__init__(federation, budget)
        self.replies: Counter[str] = Counter()
        self.lengths: list[float] = []

    def _charged(self, items: list[Any]) -> list[Any]:
        for item in items:
            if isinstance(item, RoundReport) and item.span is not None:
                self.lengths.append(item.span[1] - item.span[0])
                self.replies["ok"] += int((item.status == Status.OK).sum())
                self.replies.update(reason.why.short for reason in item.reasons.values())
        return super()._charged(items)


def plan_time(
    federation_of: Callable[[int], Federation], *arguments: Any, seed: int, draws: int = 5, **settings: Any
) -> TimePlan:
    """Go through a method `draws` times; `arguments` and `settings` are those of `prepare`.

    `federation_of` makes the clients of each draw, from a seed.
    """
    whole_number("draws", draws)
    sessions = []
    for draw in range(draws):
        own = derive(seed, "plan", draw)
        federation = federation_of(own)
        prepared = prepare(federation, *arguments, seed=own, **settings)
        session = _Watched(federation, prepared.budget)
        prepared.begin(session)
        best = prepared.method.run(prepared.search)
        prepared.search.settle(best)
        prepared.search.conclude()
        conclude(prepared.search, best, prepared.baseline)
        sessions.append(session)
        auto = prepared.search.facts.get("auto")
    costs = [session.ledger.cost for session in sessions]
    replies = sum((session.replies for session in sessions), Counter())
    return TimePlan(
        [session.ledger.simulated_seconds for session in sessions],
        fmean(cost.rounds for cost in costs),
        fmean(length for session in sessions for length in session.lengths),
        fmean(cost.client_rounds for cost in costs),
        fmean(cost.bytes_down for cost in costs),
        fmean(cost.bytes_up for cost in costs),
        {why: count / replies.total() for why, count in replies.most_common()},
        fmean(cost.samples for cost in costs),
        fmean(cost.evaluations for cost in costs),
        prepared.budget.epsilon,
        auto,
    )
