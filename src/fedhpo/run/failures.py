"""The failures that a run's record holds; see `fedhpo.protocol.failures`."""

from __future__ import annotations

from typing import Any

from fedhpo.protocol.failures import Failures
from fedhpo.run.codec import unpack
from fedhpo.run.record import Record

#: Kinds of events whose results hold replies of clients.
_REPLIES = ("round", "done", "evaluate", "query")


def recorded_failures(record: Record) -> list[dict[str, Any]]:
    """The failures of a run, also of one that has not finished."""
    found = Failures()
    for event in record.events():
        if event.kind in _REPLIES and event.result is not None:
            found.take(unpack(event.result))
    return found.to_list()
