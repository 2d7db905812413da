"""A Flower app whose nodes are worker processes, on this machine or on a Ray cluster.

A node's message travels with the node's context, which comes back with the reply: any worker may answer for
any node. Workers import the app themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

from fedhpo.core.user_code import in_words
from fedhpo.federations.apps.app_file import AppFile
from fedhpo.federations.apps.loaded import find_modules_in, load_client, prepare
from fedhpo.federations.apps.quiet import to_standard_error
from fedhpo.federations.apps.wrapper import wrap
from fedhpo.federations.flower.identity import assume_identity
from fedhpo.federations.flower.in_process import RAISED, InProcessGrid
from fedhpo.workers.pool import Handler, Pool, ray_workers
from fedhpo.workers.processes import Processes, WorkersUnavailable, pickled

#: What a worker is asked: a message and the context of its node. It answers with both.
_Asked = tuple[Message, Context]


class WorkerGrid(InProcessGrid):
    """Nodes whose messages are answered by a pool's workers, side by side."""

    def __init__(self, pool: Pool[_Asked], app: ClientApp, *arguments: Any, **options: Any) -> None:
        super().__init__(app, *arguments, **options)
        self._pool = pool
        self._sent: dict[int, Message] = {}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages to workers."""
        ids = list(super().push_messages(messages))
        for one in ids:
            message = self._waiting.pop(one)
            context = self.contexts[message.metadata.dst_node_id]
            self._sent[self._pool.submit((message, context))] = message
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The next reply; waits for it."""
        if not self._sent:
            return []
        done = self._pool.next()
        assert done is not None  # it waits as long as it takes
        message = self._sent.pop(done.ticket)
        if done.failure is not None:
            return [Message(Error(RAISED, done.failure.text), reply_to=message)]
        reply, context = done.value
        self.contexts[message.metadata.dst_node_id] = context
        return [reply]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send, and wait for all replies."""
        ids = list(self.push_messages(messages))
        return [reply for _ in ids for reply in self.pull_messages(ids)]

    def close(self) -> None:
        """Stop the workers."""
        self._pool.close()


def app_grid(
    app: AppFile,
    client: ClientApp,
    nodes: Sequence[Mapping[str, Any]],
    setup: str | None = None,
    workers: int | None = None,
    ray: str | None = None,
) -> InProcessGrid:
    """The nodes of an app, by their configs: in this process, in workers, or on a Ray cluster."""
    pool = _pool(app, setup, workers, ray)
    if pool is None:
        return InProcessGrid(client, nodes, app.config, seed=0)
    return WorkerGrid(pool, client, nodes, app.config, seed=0)


def _pool(app: AppFile, setup: str | None, workers: int | None, ray: str | None) -> Pool[_Asked] | None:
    if ray is not None:
        return ray_workers(ray, workers, serve_app, app, setup)
    if workers:
        try:
            return Processes(workers, _serve, pickled((app, setup)))
        except WorkersUnavailable as error:
            warnings.warn(f"the app runs in this process, not in workers: {error}", stacklevel=4)
    return None


def _serve(own: tuple[AppFile, str | None]) -> Handler[_Asked]:
    return serve_app(*own)


def serve_app(app: AppFile, setup: str | None) -> Handler[_Asked]:
    """What a worker does: the app's own functions, under the context that came with the message."""
    find_modules_in(app)
    assume_identity(1, 1)
    with to_standard_error():
        prepare(setup)
        answer: Callable[[Message, Context], Message] = wrap(load_client(app))

    def handle(asked: _Asked) -> _Asked:
        message, context = asked
        try:
            return answer(message, context), context
        except Exception as error:
            return Message(Error(RAISED, in_words(error)), reply_to=message), context

    return handle
