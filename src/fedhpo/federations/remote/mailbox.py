"""The mailbox: tasks to nodes, replies back, one message in flight per node.

Tasks for one client that wait at the same time travel in one message, as many as its size allows. Each
message has its deadline. Replies that were not asked for, or come twice or too late, are dropped and
noted.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedhpo.core.vectors import Vector
from fedhpo.federations.remote.layout import Layout, Rejected
from fedhpo.federations.remote.messages import replies_in
from fedhpo.federations.remote.replies import TaskFailed, TaskMissing, check_token
from fedhpo.federations.remote.transport import Incoming, Outgoing, Parcel, Transport, Trouble
from fedhpo.protocol.federation import Status
from fedhpo.protocol.reasons import Reason, Why, ours

log = logging.getLogger("fedhpo.remote")

#: Seconds between looks: at least, at most, and as a share of the time since something came.
_SHORTEST_WAIT, _LONGEST_WAIT, _WAIT_SHARE = 0.002, 1.0, 0.05


@dataclass(eq=False)
class ArraysParcel:
    """A model of named arrays."""

    vector: Vector
    layout: Layout

    @property
    def content(self) -> Mapping[str, Vector]:
        """Its arrays."""
        return self.layout.split(self.vector)

    @property
    def bytes(self) -> int:
        """What it weighs."""
        return int(self.vector.nbytes)


@dataclass(eq=False)
class TreesParcel:
    """A model of boosted trees, as XGBoost writes it."""

    content: bytes

    @property
    def bytes(self) -> int:
        """What it weighs."""
        return len(self.content)


@dataclass(eq=False)
class Item:
    """One task for one client; `read` makes its reply what `done` is told, and may reject it.

    `trainings` is what the deadline counts: a local search is as many as it tries configs.
    """

    client: int
    kind: str
    task: Mapping[str, Any]
    model: Parcel | None
    read: Callable[[Any, Incoming], Any]
    done: Callable[[Status, Reason | None, Any], None]
    trainings: int = 1
    attempts: int = 0
    node: int | None = None  # only a hello is for a node rather than a client
    hopeless: bool = False  # its client did not even read it, and will not another time

    @property
    def bytes(self) -> int:
        """What it adds to a message."""
        return self.model.bytes if self.model is not None else 0


@dataclass(eq=False)
class _Sent:
    items: list[Item]
    node: int
    seconds: float
    until: float


@dataclass
class Post:
    """See the module's docstring. `node_of` says where a client is now, or that it is not there."""

    transport: Transport
    node_of: Callable[[int], int | None]
    deadline: float
    retries: int
    message_bytes: int
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    #: How often something was dropped or rejected, by what it was.
    dropped: Counter[str] = field(default_factory=Counter)
    _lines: dict[tuple[str, int], deque[Item]] = field(default_factory=dict)
    _sent: dict[str, _Sent] = field(default_factory=dict)
    _late: dict[str, _Sent] = field(default_factory=dict)
    _busy: set[int] = field(default_factory=set)
    _heard: float = 0.0

    def add(self, item: Item) -> None:
        """Take an item; it leaves with the next `send`."""
        whose = ("node", item.node) if item.node is not None else ("client", item.client)
        self._lines.setdefault(whose, deque()).append(item)

    def send(self) -> None:
        """Push a message to every node that has something waiting and nothing in flight."""
        # A node takes one message at a time: two that arrive together would train two models at once in its
        # memory, and the second one's deadline would run while it waits.
        out: list[tuple[Outgoing, _Sent]] = []
        for line in [line for line in self._lines.values() if line]:
            node = line[0].node if line[0].node is not None else self.node_of(line[0].client)
            if node is None:
                while line:
                    self._end(line.popleft(), Status.MISSING, ours(Why.GONE, "its node is not there"))
            elif node not in self._busy:
                items = self._fill(line)
                seconds = self.deadline * sum(item.trainings for item in items)
                sent = _Sent(items, node, seconds, self.clock() + seconds)
                out.append((self._message(items, node, seconds), sent))
                self._busy.add(node)
        self._lines = {whose: line for whose, line in self._lines.items() if line}
        if not out:
            return
        self._heard = self.clock()
        names = self.transport.push([message for message, _ in out])
        for name, (_, sent) in zip(names, out, strict=True):
            if name is not None:
                self._sent[name] = sent
            else:
                self._free(sent)
                self._end_all(sent, Status.MISSING, ours(Why.GONE, "the message was not taken"))

    def _fill(self, line: deque[Item]) -> list[Item]:
        """As many items of one kind as fit into one message, and at least one."""
        items = [line.popleft()]
        size = items[0].bytes
        while line and line[0].kind == items[0].kind and size + line[0].bytes <= self.message_bytes:
            size += line[0].bytes
            items.append(line.popleft())
        return items

    def _message(self, items: list[Item], node: int, seconds: float) -> Outgoing:
        # Tasks about the same model share one copy of it: ten clients' worth of tasks cost one transfer.
        parcels = list(dict.fromkeys(item.model for item in items if item.model is not None))
        names = {parcel: f"model-{place}" for place, parcel in enumerate(parcels)}
        tasks = [
            {**item.task, "arrays": names[item.model]} if item.model is not None else dict(item.task)
            for item in items
        ]
        facts = {"client": items[0].client, "tasks": tasks}
        return Outgoing(node, items[0].kind, facts, {n: parcel for parcel, n in names.items()}, seconds)

    def collect(self) -> None:
        """Send what can go, take what came; with nothing come, rest for a while."""
        self.send()
        came = list(self.transport.pull([*self._sent, *self._late])) if self._sent else []
        # A node that replies twice to one message has not been honest about one of them, and nothing says
        # which: neither is used.
        twice = {key for key, n in Counter(reply.to for reply in came).items() if n > 1}
        for message in came:
            self._receive(message, twice)
        now = self.clock()
        for key in [key for key, sent in self._sent.items() if now > sent.until]:
            # Remembered for another deadline, so that its reply is recognised as late, not as unasked for.
            sent = self._late[key] = self._sent.pop(key)
            sent.until = now + self.deadline
            self._free(sent)
            for item in sent.items:
                self._end(item, Status.MISSING, ours(Why.LATE, f"no reply within {sent.seconds:g} s"))
        self._late = {key: sent for key, sent in self._late.items() if now <= sent.until}
        if came:
            self._heard = now
        elif self._sent:
            self.sleep(min(max(_WAIT_SHARE * (now - self._heard), _SHORTEST_WAIT), _LONGEST_WAIT))

    def _receive(self, message: Incoming, twice: set[str]) -> None:
        """A reply: whose it is, whether it may be looked at, what became of each of its tasks."""
        key = message.to
        if key in self._late:
            late = self._late.pop(key)
            if message.trouble is None:
                self.note("replies after the deadline", f"client {late.items[0].client}")
            return
        sent = self._sent.pop(key, None)
        if sent is None:
            if key not in twice:  # else it was dropped with the first
                self.note("replies that were not asked for", f"to message {key[:40]!r}")
            return
        self._free(sent)
        if key in twice:
            self.note("duplicate replies", f"client {sent.items[0].client}")
            self._end_all(sent, Status.FAILED, ours(Why.REJECTED, "it replied more than once"))
        elif message.trouble is not None:
            self._trouble(sent, message.trouble)
        elif message.node != sent.node:  # else one client could answer for another
            self.note("replies by another node", f"client {sent.items[0].client}")
            self._end_all(sent, Status.FAILED, ours(Why.REJECTED, "the reply is by another node"))
        else:
            self._read(sent, message)

    def _read(self, sent: _Sent, message: Incoming) -> None:
        try:
            replies = replies_in(message.facts(), len(sent.items))
        except Rejected as why:
            self.note("rejected replies", f"client {sent.items[0].client}: {why}")
            self._end_all(sent, Status.FAILED, Reason(Why.REJECTED, str(why)))
            return
        for item, reply in zip(sent.items, replies, strict=True):
            try:
                check_token(reply, item.task)
                value = item.read(reply, message)
            except TaskFailed as failed:
                self._end(item, Status.FAILED, failed.reason)
            except TaskMissing as missing:
                self._end(item, Status.MISSING, missing.reason)
            except Rejected as why:
                self.note("rejected replies", f"client {item.client}: {why}")
                self._end(item, Status.FAILED, Reason(Why.REJECTED, str(why)))
            except Exception as error:  # no reply, however odd, ends the run
                self.note("rejected replies", f"client {item.client}: {type(error).__name__}: {error}")
                unread = f"its reply cannot be read: {type(error).__name__}"
                self._end(item, Status.FAILED, Reason(Why.REJECTED, unread))
            else:
                self._end(item, Status.OK, None, value)

    def _trouble(self, sent: _Sent, trouble: Trouble) -> None:
        for item in sent.items:
            if trouble.passing and item.attempts < self.retries:
                item.attempts += 1
                log.info("client %d: %s; asked once more", item.client, trouble.why)
                self.add(item)
            else:
                item.hopeless = not trouble.passing and not trouble.missing
                self._end(item, Status.MISSING if trouble.missing else Status.FAILED, trouble.why)

    def note(self, what: str, details: str) -> None:
        """Count something that was dropped, and log it."""
        self.dropped[what] += 1
        log.warning("dropped: %s (%s)", what, details)

    def _free(self, sent: _Sent) -> None:
        self._busy.discard(sent.node)

    def _end_all(self, sent: _Sent, status: Status, why: Reason) -> None:
        for item in sent.items:
            self._end(item, status, why)

    def _end(self, item: Item, status: Status, why: Reason | None, value: Any = None) -> None:
        if status != Status.OK:
            log.info("client %d: %s", item.client, why)
        item.done(status, why, value)
