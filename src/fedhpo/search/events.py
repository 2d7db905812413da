"""What callbacks hear of a search, and how one of them stops it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedhpo.protocol.errors import TuningError as TuningError

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


class StopTuning(Exception):
    """Raised by a callback to stop the run; it can be resumed."""


@dataclass(frozen=True)
class Event:
    """What callbacks are told: something happened in the search."""

    kind: str
    search: Search
    replayed: bool
    trials: Sequence[Trial] = ()
