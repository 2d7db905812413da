"""Many parties' local searches at once, none waiting for another."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

from fedhpo.core.journal import Journal
from fedhpo.protocol.federation import Answer
from fedhpo.queries.local_search import LocalSearch, PartySearch
from fedhpo.space.config import Config


@dataclass(frozen=True)
class Outcome:
    """What came of a config at a party: its loss, or why there is none; and the rows trained on."""

    party: int
    loss: float | None
    reason: str = ""
    samples: int = 0


class Trainer(Protocol):
    """Trains and scores configs at parties, several at once."""

    def submit(self, party: int, config: Config) -> None:
        """Begin with a config; one per party at a time."""

    def next(self, seconds: float | None) -> Outcome | None:
        """Wait for one to end; None if that took longer than `seconds`."""

    def abandon(self) -> None:
        """Forget all that is under way."""


def side_by_side(
    query: LocalSearch,
    searches: Mapping[int, PartySearch],
    trainer: Trainer,
    clock: Callable[[], float] = time.monotonic,
) -> dict[int, Answer]:
    """Run the parties' searches, each at its own pace; who is not done by the deadline is late.

    What the journal holds of a party is told to its search again, in place of training.
    """
    begun, deadline = clock(), query.deadline
    path = query.journal if query.privacy is None else None
    journal = Journal(path, {"query": query.to_dict(), "parties": [[p, s.size] for p, s in searches.items()]})
    known: dict[int, deque[Outcome]] = {party: deque() for party in searches}
    for line in journal:
        known[line["party"]].append(Outcome(**line))
    busy: set[int] = set()

    def tell(search: PartySearch, outcome: Outcome) -> None:
        search.samples += outcome.samples
        search.tell(outcome.loss, outcome.reason)

    def go_on(search: PartySearch) -> None:
        while (config := search.ask()) is not None:
            if not known[search.party]:
                busy.add(search.party)
                trainer.submit(search.party, config)
                return
            tell(search, known[search.party].popleft())
        busy.discard(search.party)

    for search in searches.values():
        go_on(search)
    while busy:
        left = None if deadline is None else begun + deadline - clock()
        if left is not None and left <= 0:
            break
        outcome = trainer.next(left)
        if outcome is not None:
            journal.add([asdict(outcome)])
            tell(searches[outcome.party], outcome)
            go_on(searches[outcome.party])
    if busy:
        trainer.abandon()
    return {
        party: search.late(deadline or 0.0) if party in busy else search.answer()
        for party, search in searches.items()
    }
