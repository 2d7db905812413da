"""Flower in one process: a ServerApp and a ClientApp, unmodified, without Ray, network or other processes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedhpo.core.user_code import in_words
from fedhpo.federations.flower.identity import assume_identity

_RUN, _SERVER = 1, 1
#: Flower's code for a client app that raised an exception.
RAISED = 2


class InProcessGrid(Grid):
    """Nodes in this process: a message is answered when its reply is pulled.

    `nodes` is how many there are, or the node config of each; without one, node i has the `partition-id` i.
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: int | Sequence[Mapping[str, Any]],
        run_config: Mapping[str, Any] | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        if isinstance(nodes, int):
            nodes = [{"partition-id": i, "num-partitions": nodes} for i in range(nodes)]
        assume_identity(_RUN, _SERVER)
        self.app = app
        # As in Flower's own runtimes, a node's id says nothing of which node it is.
        ids = np.random.default_rng(seed).integers(1 << 32, 1 << 62, len(nodes)).tolist()
        self.contexts = {
            node: Context(_RUN, node, dict(config), RecordDict(), dict(run_config or {}))
            for node, config in zip(ids, nodes, strict=True)
        }
        self._waiting: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that are there."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages to nodes."""
        ids = []
        for message in messages:
            ids.append(str(uuid.uuid4()))
            message.metadata.__dict__["_message_id"] = ids[-1]
            self._waiting[ids[-1]] = message
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Let the nodes answer these messages, in the order in which they were sent."""
        asked = set(message_ids)
        mine = [key for key in self._waiting if key in asked]
        return [self.answer(self._waiting.pop(key)) for key in mine]

    def answer(self, message: Message) -> Message:
        """A node's reply to a message."""
        context = self.contexts.get(message.metadata.dst_node_id)
        if context is None:
            return Message(Error(5, "the node has gone"), reply_to=message)
        try:
            return self.app(message, context)
        except Exception as error:
            return Message(Error(RAISED, in_words(error)), reply_to=message)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send, and pull the replies."""
        return self.pull_messages(self.push_messages(messages))

    def close(self) -> None:
        """There is nothing to end here; nodes that are workers have processes."""

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        """Deprecated by Flower."""
        raise NotImplementedError("write flwr.app.Message(...) in place of grid.create_message(...)")

    def set_run(self, run: Any) -> None:
        """There is only one run."""

    @property
    def run(self) -> Any:
        """There is only one run, and nothing to say of it."""
        raise NotImplementedError("a grid in process knows nothing of runs")


def run_in_process(
    server: ServerApp,
    client: ClientApp,
    nodes: int | Sequence[Mapping[str, Any]],
    run_config: Mapping[str, Any] | None = None,
) -> Context:
    """Run a Flower app in this process; the context of its ServerApp comes back."""
    context = Context(_RUN, _SERVER, {}, RecordDict(), dict(run_config or {}))
    server(InProcessGrid(client, nodes, run_config), context)
    return context
