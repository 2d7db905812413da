"""A client's answers to a tuning server, by kind of message, independent of the transport."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.federations.remote.messages import (
    BY_SIZE,
    EVALUATE,
    HELLO,
    LEFT_OUT,
    QUERY,
    TRAIN,
    NamedArrays,
    Task,
)
from fedhpo.federations.remote.replies import TaskFailed, TaskMissing, failure_of, token_of
from fedhpo.parties.context import Context
from fedhpo.parties.hold import Held
from fedhpo.parties.party import Party, QueryFunction
from fedhpo.protocol.reasons import Reason, Why

log = logging.getLogger("fedhpo.client")
#: Characters of what a server says that go into this node's log.
_MOST_TOLD = 500
#: What tells how many rows a client has: an accuracy does, as a share of so many.
_TELLS_SIZE = ("train_size", "validation_size", "samples", "accuracy_before", "accuracy_after")

#: Does one task: from the task, the model that came with it and the query, the facts of a reply and a model.
_Do = Callable[[Task, Any, Any, Context], tuple[dict[str, Any], NamedArrays | bytes]]
#: From the facts of a message, what reads its models, and the context: the replies, and the models in them.
Replied = Callable[
    [Mapping[str, Any], Callable[[Any], Any], Context],
    tuple[list[dict[str, Any]], dict[str, NamedArrays | bytes]],
]


@dataclass(frozen=True)
class Answers:
    """A party's answers. `hold` is the seconds after which a reply to a training leaves."""

    party: Party
    queries: Mapping[str, QueryFunction]
    hold: Callable[[], float]

    @property
    def kinds(self) -> list[str]:
        """The kinds of message that are answered."""
        return [TRAIN, EVALUATE, *(f"{QUERY}.{name}" for name in (HELLO, LEFT_OUT, *self.queries))]

    def __call__(
        self, kind: str, asked: Mapping[str, Any], model_of: Callable[[Any], Any], context: Context
    ) -> tuple[list[dict[str, Any]], dict[str, NamedArrays | bytes]]:
        """The replies to all tasks of a message, and the models in them.

        `asked` are the facts of the message, `model_of(name)` one of its models.
        """
        do = self._does(kind)
        if kind != TRAIN:
            return _replied(asked, model_of, context, do)
        # Read here: a study is read when it is first needed.
        return Held(self.hold())(lambda: _replied(asked, model_of, context, do))

    def _does(self, kind: str) -> _Do:
        if kind == TRAIN:
            return lambda task, model, _, context: _trained(self.party, task, model, context)
        if kind == EVALUATE:
            return lambda task, model, _, context: (asdict(self.party.evaluate(model, task, context)), {})
        name = kind.removeprefix(f"{QUERY}.")
        if name == HELLO:
            return lambda task, model, _, context: ({"answer": self.party.hello(context).to_dict()}, {})
        if name == LEFT_OUT:
            return _left_out
        if name not in self.queries:
            raise InputError(f"this client answers no query {name!r}; it answers {', '.join(self.queries)}")
        return _asking(self.queries[name])


def query_answer(function: QueryFunction) -> Replied:
    """Answer one query."""
    return lambda asked, model_of, context: _replied(asked, model_of, context, _asking(function))


def _asking(function: QueryFunction) -> _Do:
    return lambda task, model, query, context: _answered(function(query, model, task, context))


def _replied(
    asked: Mapping[str, Any], model_of: Callable[[Any], Any], context: Context, do: _Do
) -> tuple[list[dict[str, Any]], dict[str, NamedArrays | bytes]]:
    """The replies to all tasks; each failure is reported separately."""
    replies: list[dict[str, Any]] = []
    models: dict[str, NamedArrays | bytes] = {}
    for place, one in enumerate(asked["tasks"]):
        task = Task.from_dict(one, asked["client"])
        try:
            model = {} if one.get("arrays") is None else model_of(one["arrays"])
            reply, after = do(task, model, one.get("query"), context)
            reply = {"trial": task.trial, **reply}
            if not isinstance(after, bytes):
                # A copy: training of one's own may return arrays that its next task changes.
                after = {name: np.array(array, np.float32) for name, array in after.items()}
            if isinstance(after, bytes) or all(np.isfinite(array).all() for array in after.values()):
                if isinstance(after, bytes) or after:
                    reply["arrays"] = f"model-{place}"
                    models[f"model-{place}"] = after
            else:
                reply = {"trial": task.trial, **failure_of(TaskFailed(Reason(Why.DIVERGED)))}
        except TaskMissing as late:
            reply = {"trial": task.trial, "missing": str(late)}
        except (Exception, SystemExit) as error:  # a task that fails is told, and takes no other with it
            reply = {"trial": task.trial, **failure_of(error)}
        replies.append({**reply, "task": token_of(one)})
    return replies, models


def _trained(
    party: Party, task: Task, arrays: Any, context: Context
) -> tuple[dict[str, Any], NamedArrays | bytes]:
    """The facts of a reply, and the model. Facts that only a rule's look-up needed do not leave."""
    trained = party.train(arrays, task, context)
    facts = {name: value for name, value in vars(trained).items() if name != "arrays" and value is not None}
    if task.rule is not None and not (party.tells and task.weighting == BY_SIZE):
        facts = {name: value for name, value in facts.items() if name not in _TELLS_SIZE}
    return facts, trained.arrays


def _left_out(task: Task, model: Any, asked: Any, context: Context) -> tuple[dict[str, Any], dict[str, Any]]:
    """Log the server's message that this node takes no part, and why, for the node's owner."""
    log.warning("this node takes no part in the run: %s", str(asked["why"])[:_MOST_TOLD])
    return {"answer": None}, {}


def _answered(found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    answer, cost = found if isinstance(found, tuple) else (found, {})
    return {"answer": answer, "cost": cost}, {}
