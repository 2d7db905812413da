"""Nodes whose app was not wrapped, as fedhpo is not installed there: spoken to as their own server would.

`PlainGrid` stands between the mailbox and Flower's grid. A node that does not know the greeting is spoken to
in plain messages, one task after the other; others get theirs unchanged. What a plain node cannot do: read
tuned keys of its run config, score before and after training, have a state for each trial, tell which
partition it is, draw its random numbers from the trial's seed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedhpo.federations.apps.records import content_for, metrics_of_reply, records_of
from fedhpo.federations.apps.wrapper import scored
from fedhpo.federations.flower import messages as wire
from fedhpo.federations.remote.clients import PLAIN, Hello
from fedhpo.federations.remote.messages import HELLO, QUERY, TRAIN
from fedhpo.federations.remote.replies import failure_of

#: Flower's code for a client app that raised an exception: it knows no such query.
_RAISED = 2
#: Names in its reason where the app's module could not be imported.
_NOT_LOADED = ("ImportError", "ModuleNotFoundError")
_HELLO = f"{QUERY}.{HELLO}"


@dataclass(eq=False)
class _Job:
    """A message of ours to a plain node, and how far its tasks are."""

    message: Message
    tasks: list[dict[str, Any]]
    replies: list[dict[str, Any]] = field(default_factory=list)
    models: dict[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> dict[str, Any]:
        """The task that comes next, or is under way."""
        return self.tasks[len(self.replies)]

    @property
    def done(self) -> bool:
        """Whether all its tasks have their replies."""
        return len(self.replies) == len(self.tasks)


class PlainGrid(Grid):
    """See the module's docstring."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._plain: set[int] = set()
        self._greeted: dict[str, Message] = {}
        self._jobs: dict[str, tuple[str, _Job]] = {}  # by Flower's id: ours, and the job

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that are there."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages, those to plain nodes task by task."""
        found = []
        for message in messages:
            if message.metadata.dst_node_id in self._plain and message.metadata.message_type != _HELLO:
                ours = str(uuid.uuid4())
                message.metadata.__dict__["_message_id"] = ours
                self._send(ours, _Job(message, wire.facts(message)["tasks"]))
                found.append(ours)
            else:
                found += self._grid.push_messages([message])
                if message.metadata.message_type == _HELLO:
                    self._greeted[message.metadata.message_id] = message
        return found

    def _send(self, ours: str, job: _Job) -> None:
        how, arrays = job.task["app"], wire.arrays_of(job.message, job.task.get("arrays"))
        kind = job.message.metadata.message_type
        config = how["config" if kind == TRAIN else "evaluate"]
        content = content_for(kind, how, arrays, config)
        plain = Message(content, job.message.metadata.dst_node_id, kind, ttl=job.message.metadata.ttl)
        [flowers] = self._grid.push_messages([plain])
        self._jobs[flowers] = (ours, job)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies that came; of plain nodes once all tasks of a message have theirs."""
        asked = set(message_ids)
        mine = [flowers for flowers, (ours, _) in self._jobs.items() if ours in asked]
        ids = [*(one for one in asked if one not in {ours for ours, _ in self._jobs.values()}), *mine]
        found = []
        for reply in self._grid.pull_messages(ids):
            key = reply.metadata.reply_to_message_id
            if key in self._jobs:
                found += self._answered(key, reply)
            else:
                found.append(self._met(key, reply))
        return found

    def _met(self, key: str, reply: Message) -> Message:
        """The reply to a greeting: where the node's app does not know it, one in its place."""
        greeting = self._greeted.pop(key, None)
        if greeting is None or not reply.has_error() or reply.error.code != _RAISED:
            return reply
        if any(kind in (reply.error.reason or "") for kind in _NOT_LOADED):  # it knows nothing at all
            return reply
        self._plain.add(greeting.metadata.dst_node_id)
        hello = Hello(sizes={"train": 1, "validation": 1, "test": 0}, training=PLAIN)
        return Message(wire.content({"replies": [{"answer": hello.to_dict()}]}), reply_to=greeting)

    def _answered(self, key: str, reply: Message) -> list[Message]:
        ours, job = self._jobs.pop(key)
        if reply.has_error():
            return [Message(reply.error, reply_to=job.message)]
        job.replies.append(self._told(job, reply))
        if not job.done:
            self._send(ours, job)
            return []
        content = wire.content({"replies": job.replies}, job.models)
        return [Message(content, reply_to=job.message)]

    def _told(self, job: _Job, reply: Message) -> dict[str, Any]:
        """What a wrapped client would have said."""
        trial, place = job.task["trial"], len(job.replies)
        try:
            metrics = metrics_of_reply(reply)
            if job.message.metadata.message_type != TRAIN:
                return {"trial": trial, **scored(metrics, job.task["app"]), "metrics": metrics}
            arrays, records = records_of(reply)
        except Exception as error:
            return {"trial": trial, **failure_of(error)}
        job.models[f"model-{place}"] = dict(arrays.items())
        told = {"metrics": metrics, "records": records, "read": None, "arrays": f"model-{place}"}
        return {"trial": trial, **told}

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Not used: the mailbox pushes and pulls."""
        raise NotImplementedError("push messages, and pull their replies")

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        """Deprecated by Flower."""
        raise NotImplementedError("write flwr.app.Message(...) in place of grid.create_message(...)")

    def set_run(self, run: Any) -> None:
        """As Flower's grid."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """As Flower's grid."""
        return self._grid.run
