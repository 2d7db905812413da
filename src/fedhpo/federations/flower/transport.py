"""Flower's grid as a transport: messages and replies in its own records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from flwr.app import Array, Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedhpo.federations.flower import messages as wire
from fedhpo.federations.flower.arrays import decode, encode
from fedhpo.federations.flower.identity import RUNTIME
from fedhpo.federations.flower.in_process import InProcessGrid
from fedhpo.federations.remote.layout import Layout
from fedhpo.federations.remote.transport import Outgoing, Parcel, Trouble
from fedhpo.protocol.reasons import Reason, Why

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


@dataclass(frozen=True)
class FlowerReply:
    """A reply by Flower."""

    message: Message

    @property
    def to(self) -> str:
        """The message that it replies to."""
        return str(self.message.metadata.reply_to_message_id)

    @property
    def node(self) -> int:
        """Who sent it."""
        return int(self.message.metadata.src_node_id)

    @property
    def trouble(self) -> Trouble | None:
        """Flower's error in its place."""
        if not self.message.has_error():
            return None
        code, reason = self.message.error.code, (self.message.error.reason or "").strip()
        known = _MISSING.get(code) or _FAILED.get(code, f"error {code} of Flower")
        kind = Why.GONE if code in _MISSING else Why.RAISED
        why = Reason(kind, f"{known}: {reason[:500]}" if reason else known)
        return Trouble(why, missing=code in _MISSING, passing=code in _PASSING)

    def facts(self) -> Mapping[str, Any]:
        """What it says in plain values."""
        return wire.facts(self.message)

    def arrays(self, name: Any, layout: Layout) -> dict[str, NDArray[np.float32]]:
        """One of its models: named arrays."""
        return decode(wire.arrays_of(self.message, name), layout)

    def bytes(self, name: Any, most: int) -> bytes:
        """One of its models: bytes."""
        return wire.bytes_of(self.message, name, most)


class FlowerTransport:
    """Messages through a grid; a model is encoded once, however many nodes get it."""

    runtime = RUNTIME

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._encoded: WeakKeyDictionary[Parcel, Mapping[str, Array]] = WeakKeyDictionary()

    def check(self, wanted: int) -> None:
        """Nodes may join at any time."""

    def close(self) -> None:
        """A grid in this process may have workers."""
        if isinstance(self.grid, InProcessGrid):
            self.grid.close()

    def wait(self, seconds: float) -> None:
        """Rest so long: Flower does not say when a reply comes."""
        time.sleep(seconds)

    def nodes(self) -> Iterable[int]:
        """The nodes that are there now."""
        return self.grid.get_node_ids()

    def push(self, messages: Sequence[Outgoing]) -> list[str | None]:
        """Send messages."""
        out = [self._message(message) for message in messages]
        taken = set(self.grid.push_messages(out))
        names = [message.metadata.message_id for message in out]
        return [name if name in taken else None for name in names]

    def pull(self, names: Iterable[str]) -> Iterable[FlowerReply]:
        """Replies that have come."""
        return [FlowerReply(message) for message in self.grid.pull_messages(list(names))]

    def _message(self, one: Outgoing) -> Message:
        models = {name: self._content(parcel) for name, parcel in one.models.items()}
        return Message(wire.content(one.facts, models), one.node, one.kind, ttl=one.seconds)

    def _content(self, parcel: Parcel) -> Mapping[str, Array] | bytes:
        content = parcel.content
        if isinstance(content, bytes) or all(isinstance(array, Array) for array in content.values()):
            return content
        if parcel not in self._encoded:
            self._encoded[parcel] = encode(content)
        return self._encoded[parcel]
