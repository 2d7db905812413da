"""Turns clients of a Flower app hostile: what leaves them is forged on the wire."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedhpo.core.streams import stream
from fedhpo.federations.flower import messages
from fedhpo.federations.flower.arrays import decode, encode
from fedhpo.testing.attacks.attack import Attack


class HostileApp(ClientApp):
    """A client app some of whose nodes lie; they are named by their `partition-id`.

    Hostile nodes know the honest updates that they themselves computed in the round.
    """

    def __init__(self, app: ClientApp, attack: Attack, clients: Collection[int], seed: int = 0) -> None:
        super().__init__()
        self._honest, self._attack, self._clients = app, attack, set(map(int, clients))
        self._seed = seed
        self._known: dict[tuple[int, int], dict[int, Any]] = {}

    def __call__(self, message: Message, context: Context) -> Message:
        """The honest reply, or the lie in its place."""
        reply = self._honest(message, context)
        client = context.node_config.get("partition-id")
        if client not in self._clients or reply.has_error():
            return reply
        asked, told = messages.facts(message), messages.facts(reply)
        models: dict[str, Any] = {}
        replies = [
            self._lie(int(client), message, task, reply, one, models)
            for task, one in zip(asked["tasks"], told["replies"], strict=True)
        ]
        return Message(messages.content({"replies": replies}, models), reply_to=message)

    def _lie(
        self,
        client: int,
        message: Message,
        task: Mapping[str, Any],
        reply: Message,
        honest: Mapping[str, Any],
        models: dict[str, Any],
    ) -> dict[str, Any]:
        told = json.loads(json.dumps(honest))
        for name in ("train_size", "validation_size", "size"):
            if name in told:
                told[name] = self._attack.size(told[name])
        if isinstance(told.get("answer"), dict) and "sizes" in told["answer"]:  # hello
            sizes = told["answer"]["sizes"]
            told["answer"]["sizes"] = {split: self._attack.size(rows) for split, rows in sizes.items()}
        for when in ("", "_before", "_after"):
            if f"accuracy{when}" in told:
                names = f"loss{when}", f"accuracy{when}"
                told |= dict(zip(names, self._attack.score(*(told[name] for name in names)), strict=True))
        record = honest.get("arrays")
        if record is not None and isinstance(reply.content[record], ArrayRecord):
            start = decode(messages.arrays_of(message, task["arrays"]))
            after = decode(messages.arrays_of(reply, record))
            models[record] = encode(self._forged(client, task, start, after))
        return dict(told)

    def _forged(
        self, client: int, task: Mapping[str, Any], start: Mapping[str, Any], after: Mapping[str, Any]
    ) -> dict[str, Any]:
        own = np.concatenate([(after[name] - start[name]).ravel() for name in start])
        seen = self._known.setdefault((task["trial"], task["round"]), {})
        seen[client] = own
        rng = stream(self._seed, "attack", client, zlib.crc32(own.tobytes()))
        update = self._attack.update(own, np.stack(list(seen.values())), rng)
        ends = np.cumsum([array.size for array in start.values()])
        parts = np.split(update, ends[:-1])
        return {
            name: start[name] + part.reshape(start[name].shape)
            for name, part in zip(start, parts, strict=True)
        }
