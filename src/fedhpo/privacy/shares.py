"""What the lines of a privacy ledger add up to: what each run took, released, and paid a second time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedhpo.core.run_errors import DamageError
from fedhpo.privacy.journal import IDENTITY, TORN

KIND = "privacy of clients over runs"


@dataclass(frozen=True)
class Share:
    """What one run takes: epsilon by client, or of `everyone` where clients have no stable names.

    `order` is the order of clients that its cohorts rotate through.
    """

    clients: Mapping[str, float] = field(default_factory=dict)
    everyone: float = 0.0
    delta: float = 0.0
    order: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As a line of the file."""
        told = {"clients": dict(self.clients), "everyone": self.everyone, "delta": self.delta}
        return told | {"order": list(self.order)}

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Share:
        """From a line of the file; raises a `ValueError` where that cannot be."""
        clients = {str(name): float(spent) for name, spent in line["clients"].items()}
        share = cls(clients, float(line["everyone"]), float(line["delta"]), tuple(map(str, line["order"])))
        if not all(0 <= one < math.inf for one in (*clients.values(), share.everyone, share.delta)):
            raise ValueError("a share is not negative")
        return share

    @property
    def most(self) -> float:
        """What it is for the client that pays most."""
        return self.everyone + max(self.clients.values(), default=0.0)


@dataclass
class Taken:
    """One run in the ledger."""

    #: What it may spend; what it did spend, once it is settled.
    share: Share
    #: How many releases it was charged for.
    releases: int = 0
    settled: bool = False
    #: Whether a line that was cut short may be one more of them.
    doubtful: bool = False
    #: Releases that were paid on top.
    again: list[Share] = field(default_factory=list)


@dataclass
class Books:
    """All runs of a ledger."""

    total: float | None = None
    runs: dict[str, Taken] = field(default_factory=dict)

    @property
    def shares(self) -> list[Share]:
        """All that was charged."""
        return [share for run in self.runs.values() for share in (run.share, *run.again)]

    @property
    def everyone(self) -> float:
        """What was spent of every client, in runs that had no stable names for them."""
        return math.fsum(share.everyone for share in self.shares)

    @property
    def delta(self) -> float:
        """The sum of the deltas of all runs."""
        return math.fsum(share.delta for share in self.shares)

    @property
    def spent(self) -> dict[str, float]:
        """Epsilon by client, what was spent of everyone included."""
        everyone = self.everyone
        spent: dict[str, float] = {}
        for share in self.shares:
            for name, epsilon in share.clients.items():
                spent[name] = spent.get(name, everyone) + epsilon
        return spent

    def most_after(self, share: Share) -> Iterable[tuple[str | None, float, float]]:
        """Who pays for a share, what it has spent so far and what it pays, who spent most first.

        None stands for a client that no run knew by name.
        """
        spent, everyone = self.spent, self.everyone
        for name in sorted({*spent, *share.clients}, key=lambda one: (-spent.get(one, everyone), one)):
            yield name, spent.get(name, everyone), share.clients.get(name, 0.0) + share.everyone
        yield None, everyone, share.everyone


def read_books(lines: Sequence[Any], damage: Callable[[int], DamageError]) -> Books:
    """What the lines add up to; `damage` makes the error for a line that does not belong in a ledger."""
    books = Books()
    for number, line in enumerate(lines, start=1):
        try:
            _enter(books, line)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise damage(number) from error
    return books


def _enter(books: Books, line: Mapping[str, Any]) -> None:
    if IDENTITY in line:
        return
    if TORN in line:
        for run, taken in books.runs.items():
            taken.doubtful |= _may_begin(line[TORN], run)
    elif books.total is None:
        total = float(line["total"])
        if line["kind"] != KIND or not 0 < total < math.inf:
            raise ValueError("not the first line of a ledger")
        books.total = total
    elif "release" in line:
        taken = books.runs[line["run"]]
        if line["release"] != taken.releases + 1:
            raise ValueError("releases follow each other")
        taken.releases, taken.doubtful = taken.releases + 1, False
        if "again" in line:
            taken.again.append(Share.of(line["again"]))
    else:
        share, run = Share.of(line), str(line["run"])
        if run in books.runs:
            books.runs[run].share, books.runs[run].settled = share, True
        else:
            books.runs[run] = Taken(share)


def _may_begin(torn: str, run: str) -> bool:
    """Whether what is left of a line may be the beginning of one of this run.

    >>> _may_begin('[{"run": "ab', "abc"), _may_begin('[{"run": "abc", "rel', "abc"), _may_begin("[{", "abc")
    (True, True, True)
    >>> _may_begin('[{"run": "b', "abc")
    False
    """
    begins = json.dumps([{"run": run}]).removesuffix("}]")
    length = min(len(torn), len(begins))
    return torn[:length] == begins[:length]
