"""Flower nodes of which one is late and two fail at first, by a clock that nobody waits for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from flwr.app import ConfigRecord, Error, Message, RecordDict

from fedhpo.federations.flower.in_process import InProcessGrid

#: The late node, and by how many seconds its greeting and its other replies are behind.
LATE, GREETING, OTHERS = 1, 0.02, 0.3
#: Nodes that fail once, with Flower's code: a process that died, which may pass, and an app that raised.
FAILING = {2: 8, 4: 2}


class TroubledGrid(InProcessGrid):
    """As the grid in process. It keeps what each message was, and limits that clients run into count."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.now = 0.0
        self.log: list[Any] = []
        self._places = {node: context.node_config["partition-id"] for node, context in self.contexts.items()}
        self._ready: dict[str, float] = {}
        self._failed: set[int] = set()

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages, and note them."""
        taken = list(messages)
        names = list(super().push_messages(taken))
        for name, message in zip(names, taken, strict=True):
            place = self._places[message.metadata.dst_node_id]
            self.log.append((message.metadata.message_type, place, model_digest(message.content)))
            behind = GREETING if "hello" in message.metadata.message_type else OTHERS
            self._ready[name] = self.now + (behind if place == LATE else 0.0)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies whose time has come."""
        return super().pull_messages([name for name in message_ids if self._ready.get(name, 0.0) <= self.now])

    def answer(self, message: Message) -> Message:
        """A node's reply; a failing one has none to its first training."""
        kind, place = message.metadata.message_type, self._places[message.metadata.dst_node_id]
        if place in FAILING and place not in self._failed and kind.startswith("train"):
            self._failed.add(place)
            return Message(Error(FAILING[place], "no power"), reply_to=message)
        return super().answer(message)


def model_digest(content: RecordDict) -> str:
    """Of the models that a message brings, and of nothing else: its text repeats settings."""
    found = hashlib.sha256(str(len(content)).encode())
    for name, record in sorted(content.items()):
        if isinstance(record, ConfigRecord):
            parts = [value for value in record.values() if isinstance(value, bytes)]
        else:
            parts = [array.data for array in record.values()] if name in content.array_records else []
        for part in parts:
            found.update(part)
    return found.hexdigest()
