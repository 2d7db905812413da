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
from functools import cached_property
from typing import Any, Protocol

from flwr.app import Array, Message
from flwr.serverapp import Grid

from fedhpo.core.vectors import Vector
from fedhpo.federations.flower import messages
from fedhpo.federations.flower.arrays import Layout, Rejected, encode
from fedhpo.federations.flower.replies import TaskFailed, TaskMissing
from fedhpo.protocol.federation import Status

log = logging.getLogger("fedhpo.flower")

#: Flower's error codes. A node that has gone, or a message that expired, is a client that never replied.
_MISSING = {
    3: "the message expired",
    4: "its reply expired",
    5: "its node has gone",
}
_FAILED = {
    0: "unknown error",
    1: "the client app could not be loaded",
    2: "the client app raised an exception",
    6: "a mod of the client app refused",
    7: "the app's bundle is not valid",
    8: "the client's process died",
}
#: What may go better a second time.
_PASSING = {0, 3, 4, 5, 8}
#: Seconds between looks: at least, at most, and as a share of the time since something came.
_SHORTEST_WAIT, _LONGEST_WAIT, _WAIT_SHARE = 0.002, 1.0, 0.05


class Parcel(Protocol):
    """A model to be sent, encoded once however many clients get it; compared by identity."""

    @property
    def content(self) -> Mapping[str, Array] | bytes:
        """The model as it travels."""

    @property
    def bytes(self) -> int:
        """What it weighs."""


@dataclass(eq=False)
class ArraysParcel:
    """A model of named arrays."""

    vector: Vector
    layout: Layout

    @cached_property
    def content(self) -> Mapping[str, Array]:
        """The model's arrays as Flower's."""
        return encode(self.layout.split(self.vector))

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
    read: Callable[[Any, Message], Any]
    done: Callable[[Status, str, Any], None]
    trainings: int = 1
    attempts: int = 0
    node: int | None = None  # only a hello is for a node rather than a client

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

    grid: Grid
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
        out: list[tuple[Message, _Sent]] = []
        for line in [line for line in self._lines.values() if line]:
            node = line[0].node if line[0].node is not None else self.node_of(line[0].client)
            if node is None:
                while line:
                    self._end(line.popleft(), Status.MISSING, "its node is not there")
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
        taken = set(self.grid.push_messages([message for message, _ in out]))
        for message, sent in out:
            if message.metadata.message_id in taken:
                self._sent[message.metadata.message_id] = sent
            else:
                self._free(sent)
                for item in sent.items:
                    self._end(item, Status.MISSING, "Flower did not take the message")

    def _fill(self, line: deque[Item]) -> list[Item]:
        """As many items of one kind as fit into one message, and at least one."""
        items = [line.popleft()]
        size = items[0].bytes
        while line and line[0].kind == items[0].kind and size + line[0].bytes <= self.message_bytes:
            size += line[0].bytes
            items.append(line.popleft())
        return items

    def _message(self, items: list[Item], node: int, seconds: float) -> Message:
        parcels = list(dict.fromkeys(item.model for item in items if item.model is not None))
        names = {parcel: f"model-{place}" for place, parcel in enumerate(parcels)}
        tasks = [
            {**item.task, "arrays": names[item.model]} if item.model is not None else dict(item.task)
            for item in items
        ]
        content = messages.content(
            {"client": items[0].client, "tasks": tasks},
            {name: parcel.content for parcel, name in names.items()},
        )
        return Message(content, node, items[0].kind, ttl=seconds)

    def collect(self) -> None:
        """Send what can go, take what came; with nothing come, rest for a while."""
        self.send()
        came = list(self.grid.pull_messages([*self._sent, *self._late])) if self._sent else []
        twice = {key for key, n in Counter(m.metadata.reply_to_message_id for m in came).items() if n > 1}
        for message in came:
            self._receive(message, twice)
        now = self.clock()
        for key in [key for key, sent in self._sent.items() if now > sent.until]:
            sent = self._late[key] = self._sent.pop(key)
            sent.until = now + self.deadline
            self._free(sent)
            for item in sent.items:
                self._end(item, Status.MISSING, f"no reply within {sent.seconds:g} s")
        self._late = {key: sent for key, sent in self._late.items() if now <= sent.until}
        if came:
            self._heard = now
        elif self._sent:
            self.sleep(min(max(_WAIT_SHARE * (now - self._heard), _SHORTEST_WAIT), _LONGEST_WAIT))

    def _receive(self, message: Message, twice: set[str]) -> None:
        """A reply: whose it is, whether it may be looked at, what became of each of its tasks."""
        key = message.metadata.reply_to_message_id
        if key in self._late:
            self.note("replies after the deadline", f"client {self._late.pop(key).items[0].client}")
            return
        sent = self._sent.pop(key, None)
        if sent is None:
            if key not in twice:  # else it was dropped with the first
                self.note("replies that were not asked for", f"to message {key[:40]!r}")
            return
        self._free(sent)
        if key in twice:
            self.note("duplicate replies", f"client {sent.items[0].client}")
            self._end_all(sent, Status.FAILED, "it replied more than once")
        elif message.has_error():
            self._error(sent, message.error.code, message.error.reason or "")
        elif message.metadata.src_node_id != sent.node:
            self.note("replies by another node", f"client {sent.items[0].client}")
            self._end_all(sent, Status.FAILED, "the reply is by another node")
        else:
            self._read(sent, message)

    def _read(self, sent: _Sent, message: Message) -> None:
        try:
            replies = messages.replies(message, len(sent.items))
        except Rejected as why:
            self.note("rejected replies", f"client {sent.items[0].client}: {why}")
            self._end_all(sent, Status.FAILED, str(why))
            return
        for item, reply in zip(sent.items, replies, strict=True):
            try:
                value = item.read(reply, message)
            except TaskFailed as why:
                self._end(item, Status.FAILED, str(why))
            except TaskMissing as why:
                self._end(item, Status.MISSING, str(why))
            except Rejected as why:
                self.note("rejected replies", f"client {item.client}: {why}")
                self._end(item, Status.FAILED, str(why))
            except Exception as error:  # no reply, however odd, ends the run
                self.note("rejected replies", f"client {item.client}: {type(error).__name__}: {error}")
                self._end(item, Status.FAILED, f"its reply cannot be read: {type(error).__name__}")
            else:
                self._end(item, Status.OK, "", value)

    def _error(self, sent: _Sent, code: int, reason: str) -> None:
        known = _MISSING.get(code) or _FAILED.get(code, f"error {code} of Flower")
        why = f"{known}: {reason.strip()[:500]}" if reason.strip() else known
        for item in sent.items:
            if code in _PASSING and item.attempts < self.retries:
                item.attempts += 1
                log.info("client %d: %s; asked once more", item.client, why)
                self.add(item)
            else:
                self._end(item, Status.MISSING if code in _MISSING else Status.FAILED, why)

    def note(self, what: str, details: str) -> None:
        """Count something that was dropped, and log it."""
        self.dropped[what] += 1
        log.warning("dropped: %s (%s)", what, details)

    def _free(self, sent: _Sent) -> None:
        self._busy.discard(sent.node)

    def _end_all(self, sent: _Sent, status: Status, why: str) -> None:
        for item in sent.items:
            self._end(item, status, why)

    def _end(self, item: Item, status: Status, why: str, value: Any = None) -> None:
        if status != Status.OK:
            log.info("client %d: %s", item.client, why)
        item.done(status, why, value)
