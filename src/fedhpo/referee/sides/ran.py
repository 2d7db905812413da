"""What a run's record tells of its search: which clients it asked for scores, and what it spent."""

from __future__ import annotations

from pathlib import Path

from fedhpo.protocol.federation import Scores
from fedhpo.run.codec import unpack
from fedhpo.run.run import open_read
from fedhpo.tuning.result import Result


def asked_clients(path: Path) -> list[int]:
    """The validation clients whose scores the run's search has seen.

    Those that compared the best trial with the user's own config at the end had no part in the search.
    """
    found: set[int] = set()
    with open_read(path) as run:
        for event in run.record.events():
            if event.kind == "evaluate" and event.result is not None:
                for item in unpack(event.result):
                    if isinstance(item, Scores) and item.split == "validation":
                        found.update(int(one) for one in item.clients)
    return sorted(found)


def spent_rounds(result: Result) -> int:
    """The rounds of the search, over all trials."""
    return int(result.cost["rounds"])
