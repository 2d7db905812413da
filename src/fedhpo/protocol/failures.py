"""What failed at clients, by reason and client: counted from their reports.

The same events give the same counts, so that a run that was resumed tells the same as one that was not.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedhpo.protocol.federation import Answer, RoundReport, Scores, Status
from fedhpo.protocol.reasons import Reason, Why

#: Reasons told apart, and clients named for each; what goes beyond is counted, not named.
_REASONS, _CLIENTS = 50, 1000
#: Kinds of events whose results hold replies of clients.
REPLIES = ("round", "done", "evaluate", "query")


@dataclass(frozen=True)
class Failure:
    """One reply of a client that could not be used."""

    reason: Reason
    status: str
    during: str
    client: int
    trial: int | None
    round: int | None
    name: str | None = None
    """What the client is called, where it has a name."""

    @property
    def is_exception(self) -> bool:
        """Whether the client failed, rather than did not reply or sent a model that had diverged."""
        # What the search does with a model that diverged is its business.
        return self.status == "failed" and self.reason.why not in (Why.DIVERGED, Why.OVERFLOW, Why.TOO_LARGE)

    def __str__(self) -> str:
        trial = "" if self.trial is None else f" of trial {self.trial}"
        when = {
            "training": f"in round {self.round}{trial}",
            "scoring": f"when it scored the model{trial}",
            "query": "at a query",
        }
        called = str(self.client) if self.name is None else repr(self.name)
        return f"client {called} failed {when[self.during]}: {self.reason}"


class ClientFailed(UserWarning):
    """A client failed; it was left out of the round."""


def warn_of(failure: Failure, more: str = "") -> None:
    """Warn of a client's failure, also if another run of this process had the same."""
    # A registry of its own: Python shows the same warning of the same place only once per process.
    warnings.warn_explicit(f"{failure}{more}", ClientFailed, "fedhpo", 0, module="fedhpo", registry={})


@dataclass
class _Group:
    """Failures with the same reason, but for the numbers in it."""

    first: Failure
    count: int = 0
    #: By client: how often, and the trial and round of its first.
    clients: dict[int, list[Any]] = field(default_factory=dict)

    def add(self, failure: Failure) -> None:
        self.count += 1
        seen = self.clients.setdefault(failure.client, [0, failure.trial, failure.round])
        seen[0] += 1

    def to_dict(self) -> dict[str, Any]:
        first = self.first
        return {
            "reason": first.reason.text,
            "why": first.reason.why.value,
            "status": first.status,
            "during": first.during,
            "count": self.count,
            "clients": len(self.clients),
            "first": {"client": first.client, "trial": first.trial, "round": first.round},
            "by_client": [[client, *seen] for client, seen in sorted(self.clients.items())[:_CLIENTS]],
        }


class Failures:
    """Counts failures as replies come in; `tell` hears of the first of each reason that is an exception."""

    def __init__(
        self,
        tell: Callable[[Failure], None] = lambda failure: None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.tell = tell
        #: What clients are called, by their numbers.
        self.names = names
        self._groups: dict[tuple[str, str, str, str], _Group] = {}
        self._rounds: dict[int, int] = {}

    def take(self, items: Iterable[Any], *, replayed: bool = False) -> None:
        """Count what failed among the results of an event; of a past one nobody is told again."""
        for item in items:
            if isinstance(item, RoundReport | Scores | Answer):
                for failure in self._of(item):
                    self._add(self._named(failure), replayed)

    def _of(self, item: RoundReport | Scores | Answer) -> Iterable[Failure]:
        if isinstance(item, Answer):
            if item.status != Status.OK:
                reason = item.reason or Reason(Why.RAISED if item.status == Status.FAILED else Why.GONE)
                yield Failure(reason, item.status.name.lower(), "query", item.client, None, None)
            return
        trained = isinstance(item, RoundReport)
        if isinstance(item, RoundReport):
            clients, number = item.cohort, item.round + (not item.applied)
            self._rounds[item.trial] = item.round
        else:
            clients, number = item.clients, self._rounds.get(item.trial, 0)
        during = "training" if trained else "scoring"
        for place, reason in sorted(item.reasons.items()):
            status = Status(int(item.status[place])).name.lower()
            yield Failure(reason, status, during, int(clients[place]), item.trial, number)

    def _named(self, failure: Failure) -> Failure:
        return failure if self.names is None else replace(failure, name=self.names[failure.client])

    def _add(self, failure: Failure, replayed: bool) -> None:
        why = failure.reason.why
        key = (re.sub(r"\d+", "#", failure.reason.text), why.value, failure.status, failure.during)
        if key not in self._groups:
            if len(self._groups) >= _REASONS:
                key = ("other reasons", "", failure.status, failure.during)
                failure = replace(failure, reason=Reason(why, "other reasons"), name=None)
            if key not in self._groups:
                self._groups[key] = _Group(failure)
                if failure.is_exception and not replayed:
                    self.tell(failure)
        self._groups[key].add(failure)

    @property
    def first(self) -> Failure | None:
        """The first that is an exception of a client, or else the first of any kind."""
        found = [group.first for group in self._groups.values()]
        return next((one for one in found if one.is_exception), found[0] if found else None)

    def to_list(self) -> list[dict[str, Any]]:
        """For result.json: one entry per reason, the most frequent first."""
        return [group.to_dict() for group in sorted(self._groups.values(), key=lambda g: -g.count)]
