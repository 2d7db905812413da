"""A pool of workers as a transport: parties in this process, in worker processes or on a Ray cluster.

A message is a job of the pool, its reply the job's value. Mailbox, parties and the server's side are those of
clients that are asked over Flower and NVFlare, so that results are the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.federations.remote.messages import to_text
from fedhpo.federations.remote.plain import PlainReply, plain
from fedhpo.federations.remote.transport import SIMULATION, Outgoing, Trouble
from fedhpo.workers.pool import Pool

#: What a reply holds beside text and models: what the party keeps until it is asked again.
KEPT = "kept"
#: How long to wait for clients in a pool: all of them are there, and none can be late.
PATIENT: Mapping[str, Any] = {
    "patience": float("inf"),
    "deadline": float("inf"),
    "retries": 0,
    "message_bytes": 1 << 62,
    "most_rows": 1 << 53,
    "repeatable": True,
}


@dataclass(frozen=True)
class Ask:
    """A message as a job: which party is asked for what, and what that party has kept so far."""

    party: int
    kind: str
    text: str
    models: Mapping[str, Any]
    kept: Mapping[str, str] = field(default_factory=dict)


class PoolTransport:
    """Messages to `parties` parties, numbered from 0, whom a pool's workers answer for.

    `pool` is called when the pool is first needed, `job` makes a job of what is asked. Some
    kinds may be answered `here`, without starting a worker. Jobs of others that end meanwhile go to `others`.
    """

    def __init__(
        self,
        pool: Callable[[], Pool[Any]],
        parties: int,
        *,
        job: Callable[[Ask], Any] = lambda ask: ask,
        here: Mapping[str, Callable[[Ask], Mapping[str, Any]]] | None = None,
        others: dict[int, Any] | None = None,
        runtime: str = SIMULATION,
        closes: bool = False,
    ) -> None:
        self.runtime, self._closes = runtime, closes
        self._pool, self._parties, self._job = pool, parties, job
        self._here, self._others = dict(here or {}), {} if others is None else others
        self._asked: dict[int, Ask] = {}
        self._answered: list[PlainReply] = []
        self._kept: dict[int, Mapping[str, str]] = {}
        self._count = 0

    def check(self, wanted: int) -> None:
        """Refuse to wait for more parties than there are."""
        if wanted > self._parties:
            raise InputError(f"clients = {wanted}: there are {self._parties}, and no others can come")

    def nodes(self) -> Iterable[int]:
        """All parties are always there."""
        return range(self._parties)

    def close(self) -> None:
        """Close the pool, unless somebody else does."""
        if self._closes:
            self._pool().close()

    def wait(self, seconds: float) -> None:
        """There is nothing to wait for: `pull` does."""

    def push(self, messages: Sequence[Outgoing]) -> list[str | None]:
        """Make jobs of messages."""
        return [self._pushed(message) for message in messages]

    def _pushed(self, message: Outgoing) -> str:
        models = {name: plain(parcel.content) for name, parcel in message.models.items()}
        kept = self._kept.get(message.node, {})
        ask = Ask(message.node, message.kind, to_text(message.facts), models, kept)
        if message.kind in self._here:
            self._count += 1
            name = f"here {self._count}"
            self._answered.append(PlainReply(name, message.node, self._here[message.kind](ask)))
            return name
        ticket = self._pool().submit(self._job(ask))
        self._asked[ticket] = ask
        return str(ticket)

    def pull(self, names: Iterable[str]) -> Iterable[PlainReply]:
        """Replies that have come; waits for one where there is none."""
        found, self._answered = self._answered, []
        while not found and self._asked:
            done = self._pool().next()
            assert done is not None  # it waits as long as it takes
            if done.ticket not in self._asked:
                self._others[done.ticket] = done
                continue
            ask = self._asked.pop(done.ticket)
            if done.failure is not None:
                trouble = Trouble(done.failure, missing=False, passing=False)
                found.append(PlainReply(str(done.ticket), ask.party, trouble=trouble))
                continue
            self._kept[ask.party] = done.value.get(KEPT, {})
            found.append(PlainReply(str(done.ticket), ask.party, done.value))
        return found
