"""What a client answers to a tuning server, by kind of message; whatever brings the messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from fedhpo.parties.context import Context, Memory
from fedhpo.parties.hold import Held
from fedhpo.parties.once import answered_once
from fedhpo.parties.own_party import OwnParty
from fedhpo.parties.party import EvaluateFunction, LabelsFunction, Party, QueryFunction, TrainFunction
from fedhpo.parties.searching import SearchFunction, searching
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.protocol.query import check_query_class, query_of
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.queries.local_search import LocalSearch

if TYPE_CHECKING:
    from fedhpo.study import Study

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
    """How one query is answered, by itself."""
    return lambda asked, model_of, context: _replied(asked, model_of, context, _asking(function))


def _asking(function: QueryFunction) -> _Do:
    return lambda task, model, query, context: _answered(function(query, model, task, context))


def answers(
    *,
    runtime: str,
    memory_of: Callable[[Any], Memory],
    study: Study | str | Path | None = None,
    data: Callable[[Any], Any] | None = None,
    device: str = "cpu",
    tell_sizes: bool = True,
    train: TrainFunction | None = None,
    evaluate: EvaluateFunction | None = None,
    sizes: Callable[[Any], Mapping[str, int]] | None = None,
    labels: LabelsFunction | None = None,
    search: SearchFunction | None = None,
    hyperparameters: Sequence[str] | None = None,
    queries: Mapping[str, QueryFunction] | Sequence[type[Any]] | None = None,
    privacy: LocalPrivacy | None = None,
    hold_replies: float | None = None,
) -> Answers:
    """The answers of a client that these describe, as in `fedhpo.flower.client`.

    `runtime` is the study's section about what brings the messages, `memory_of(context)` what a client keeps
    from one message of a run to the next.
    """
    if (study is None) == (train is None):
        raise InputError("give either study, or train and evaluate")
    known: dict[str, QueryFunction] = {}
    party: Party
    hold = lambda: 0.0  # noqa: E731
    if study is not None:
        from fedhpo.parties.study_party import StudyParty

        ours = party = StudyParty(study, data, device, tell_sizes, runtime)
        known = dict(ours.queries)
        hold = lambda: ours.hold_replies  # noqa: E731
    elif train is None or evaluate is None:
        raise InputError("evaluate is missing: without it the server has nothing to select by")
    else:
        names = None if hyperparameters is None else tuple(sorted(hyperparameters))
        own = party = OwnParty(train, evaluate, sizes, labels, tell_sizes, names)
        if search is not None:
            known[LocalSearch.name] = searching(search, own.rows, tell_sizes)
    known |= queries if isinstance(queries, Mapping) else _own_queries(queries or (), party, memory_of)
    if privacy is not None:
        from fedhpo.parties.private_party import PrivateParty

        if queries:
            raise InputError(
                "queries: a client with privacy answers no queries but local searches: leave them out"
            )
        private = PrivateParty(party, privacy, known)
        party, known = private, private.queries
    return Answers(party, known, hold if hold_replies is None else lambda: hold_replies)


def _own_queries(
    kinds: Sequence[type[Any]], party: Party, memory_of: Callable[[Any], Memory]
) -> dict[str, QueryFunction]:
    """A function for each class of queries that the client's owner listed."""
    named = {check_query_class(kind): kind for kind in kinds}
    if named and not hasattr(party, "answer"):
        raise InputError(
            "queries: classes need study, whose rows they are answered from; with train and evaluate give "
            "functions by name, queries={'name': function}"
        )

    def function(kind: type[Any]) -> QueryFunction:
        def answer(asked: Mapping[str, Any], model: Any, task: Task, context: Context) -> Any:
            query: Any = query_of(kind, asked)

            def of(query: Any) -> Any:
                return party.answer(query, model, task, context)  # type: ignore[attr-defined]

            # A private one: noise that a server could undo is drawn here, and once.
            if hasattr(query, "at_client"):
                return answered_once(query.at_client(), memory_of(context), of)
            return of(query)

        return answer

    return {name: function(kind) for name, kind in named.items()}


def _replied(
    asked: Mapping[str, Any], model_of: Callable[[Any], Any], context: Context, do: _Do
) -> tuple[list[dict[str, Any]], dict[str, NamedArrays | bytes]]:
    """The replies to all tasks; what fails is told for each by itself."""
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
    """The facts of a reply, and the model. Of a rule, nothing leaves that only its look-up needed."""
    trained = party.train(arrays, task, context)
    facts = {name: value for name, value in vars(trained).items() if name != "arrays" and value is not None}
    if task.rule is not None and not (party.tells and task.weighting == BY_SIZE):
        facts = {name: value for name, value in facts.items() if name not in _TELLS_SIZE}
    return facts, trained.arrays


def _left_out(task: Task, model: Any, asked: Any, context: Context) -> tuple[dict[str, Any], dict[str, Any]]:
    """The server says that this node takes no part, and why: for the log that the node's owner reads."""
    log.warning("this node takes no part in the run: %s", str(asked["why"])[:_MOST_TOLD])
    return {"answer": None}, {}


def _answered(found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    answer, cost = found if isinstance(found, tuple) else (found, {})
    return {"answer": answer, "cost": cost}, {}
