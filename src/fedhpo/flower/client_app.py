"""`client`: makes a Flower `ClientApp` understand what the server asks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.user_code import in_words
from fedhpo.federations.flower import messages
from fedhpo.federations.flower.arrays import Rejected, decode, encode
from fedhpo.federations.flower.clients import OWN, SPLITS, Hello
from fedhpo.federations.flower.messages import BY_SIZE, NamedArrays, Scored, Task, Trained
from fedhpo.federations.flower.replies import TaskFailed, TaskMissing
from fedhpo.flower.hold import Held
from fedhpo.flower.once import answered_once
from fedhpo.flower.party import EvaluateFunction, LabelsFunction, Party, QueryFunction, TrainFunction
from fedhpo.flower.rules import rule_of
from fedhpo.flower.searching import SearchFunction, searching
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.protocol.query import check_query_class, query_of
from fedhpo.queries.local_search import LocalSearch

if TYPE_CHECKING:
    from fedhpo.flower.study_party import StudyParty
    from fedhpo.study import Study

log = logging.getLogger("fedhpo.flower")
#: Characters of what a server says that go into this node's log.
_MOST_TOLD = 500


def client(
    app: ClientApp,
    *,
    study: Study | str | Path | None = None,
    data: Callable[[Context], Any] | None = None,
    device: str = "cpu",
    tell_sizes: bool = True,
    train: TrainFunction | None = None,
    evaluate: EvaluateFunction | None = None,
    sizes: Callable[[Context], Mapping[str, int]] | None = None,
    labels: LabelsFunction | None = None,
    search: SearchFunction | None = None,
    hyperparameters: Sequence[str] | None = None,
    queries: Mapping[str, QueryFunction] | Sequence[type[Any]] | None = None,
    privacy: LocalPrivacy | None = None,
    hold_replies: float | None = None,
) -> ClientApp:
    """Register the answers to a tuning server with a Flower `ClientApp`; the app comes back.

    Parameters
    ----------
    app
        The app. Its default `train` and `evaluate` functions are taken, and the queries below.
    study, data, device
        Train the study's model by fedhpo's own training: on the rows that `data(context)` returns (what
        `fedhpo.from_clients` takes for one client), or on the part of the study's data that the node's
        `partition-id` names, on this torch device. The model is one of torch's, or boosted trees ("xgboost").
    tell_sizes
        Whether the server may know how many rows the client has; otherwise only whether it has any, so that
        every such client weighs the same. Where the study's method lets each client look up its own
        hyperparameters (FedTune) and its weights are not by size, sizes are never told.
    train, evaluate
        Or train with functions of your own: `train(arrays, task, context)` gets the model as named float32
        arrays and returns a `Trained`, `evaluate(arrays, task, context)` a `Scored`.
    sizes
        With these: how many rows the client has, `{"train": 90, "validation": 10, "test": 0}`: it weighs at
        most that. Without it the server takes the client to have one of each.
    labels
        With these: the client's training labels and the number of classes, for methods that let each client
        look up its own hyperparameters. They stay here.
    search
        With these: `search(config, context)` returns the loss of a config on the client's own rows, less is
        better, so that it answers FLoRA's local searches. See `local_search` for an app without `client`.
    hyperparameters
        With these: the names that `train` looks up in `task.config`. A study that tunes another is refused
        at its start. Without it any name goes.
    queries
        Further queries that this client answers: with `study`, a list of classes that bring their own
        `answer` (see `fedhpo.protocol.query`), or functions by name, `function(asked, arrays, task,
        context)`. It answers no others, whatever a server asks.
    privacy
        Keep scores private: `LocalPrivacy(epsilon=1.0, total=3.0, ledger=path)`. Every evaluation and local
        search gets exact noise, drawn here, for `epsilon`; over all runs and restarts no more than `total` is
        spent, as the file `ledger` remembers. No other score leaves, whatever the server asks for.
    hold_replies
        Seconds after which a reply to a training leaves, however long the training took, so that its time
        does not tell epochs or rows; `hold_replies` in the study's `[flower]` unless it is given here.

    Examples
    --------
    >>> import numpy as np
    >>> from flwr.clientapp import ClientApp
    >>> def train(arrays, task, context):
    ...     return Trained({"w": arrays["w"] + np.float32(task.config["lr"])}, train_size=10)
    >>> def evaluate(arrays, task, context):
    ...     return Scored(size=10, loss=float((1 - arrays["w"]) ** 2))
    >>> app = client(ClientApp(), train=train, evaluate=evaluate)

    >>> import fedhpo.flower as flower
    >>> model = flower.Arrays(lambda seed: {"w": np.zeros(())})
    >>> federation = flower.FlowerFederation(flower.InProcessGrid(app, nodes=3), model)
    >>> federation.start(0, {}, seed=0)
    >>> from fedhpo import Work
    >>> [report] = federation.round([Work(0, [0, 1, 2], {"lr": 0.5})])
    >>> federation.model(0)["w"].tolist()
    0.5
    """
    if (study is None) == (train is None):
        raise InputError("give either study, or train and evaluate")
    answers: dict[str, QueryFunction] = {}
    party: Party
    ours: StudyParty | None = None
    if study is not None:
        from fedhpo.flower.study_party import StudyParty as Ours

        party = ours = Ours(study, data, device, tell_sizes)
        answers = dict(ours.queries)
    elif train is None or evaluate is None:
        raise InputError("evaluate is missing: without it the server has nothing to select by")
    else:
        names = None if hyperparameters is None else tuple(sorted(hyperparameters))
        party = OwnParty(train, evaluate, sizes, labels, tell_sizes, names)
        if search is not None:
            answers[LocalSearch.name] = searching(search, party.rows, tell_sizes)
    _refuse_secure_aggregation(app)
    answers |= queries if isinstance(queries, Mapping) else _own_queries(queries or (), party)
    if privacy is not None:
        from fedhpo.flower.private_party import PrivateParty

        if queries:
            raise InputError(
                "queries: a client with privacy answers no queries but local searches: leave them out"
            )
        private = PrivateParty(party, privacy, answers)
        party, answers = private, private.queries

    def hello(message: Message, context: Context) -> Message:
        return _replied(message, lambda *_: ({"answer": party.hello(context).to_dict()}, {}))

    def on_train(message: Message, context: Context) -> Message:
        # Read here: the study is read when it is first needed.
        told = 0.0 if ours is None else ours.hold_replies
        held = Held(told if hold_replies is None else hold_replies)
        return held(lambda: _replied(message, lambda task, arrays, _: _trained(party, task, arrays, context)))

    def on_evaluate(message: Message, context: Context) -> Message:
        return _replied(message, lambda task, arrays, _: (asdict(party.evaluate(arrays, task, context)), {}))

    app.train()(on_train)
    app.evaluate()(on_evaluate)
    app.query(messages.HELLO)(hello)
    app.query(messages.LEFT_OUT)(_left_out)
    for name, function in answers.items():
        app.query(name)(_on_query(function))
    return app


def local_search(search: SearchFunction, rows: int) -> Callable[[Message, Context], Message]:
    """Answers FLoRA's local searches in a `ClientApp` of your own, which `client` knows nothing of.

    `search(config, context)` returns the loss of a config on the client's `rows` rows, less is better.

    >>> app = ClientApp()
    >>> def search(config, context):
    ...     return abs(config["lr"] - 0.1)
    >>> answer = app.query("local_search")(local_search(search, rows=900))
    """
    return _on_query(searching(search, lambda _: rows))


def _on_query(function: QueryFunction) -> Callable[[Message, Context], Message]:
    def answer(message: Message, context: Context) -> Message:
        return _replied(
            message, lambda task, arrays, asked: _answered(function(asked, arrays, task, context))
        )

    return answer


def _left_out(message: Message, context: Context) -> Message:
    """The server says that this node takes no part, and why: for the log that the node's owner reads."""

    def told(task: Task, arrays: Any, asked: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        log.warning("this node takes no part in the run: %s", str(asked["why"])[:_MOST_TOLD])
        return {"answer": None}, {}

    return _replied(message, told)


def _own_queries(kinds: Sequence[type[Any]], party: Party) -> dict[str, QueryFunction]:
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
            return answered_once(query.at_client(), context, of) if hasattr(query, "at_client") else of(query)

        return answer

    return {name: function(kind) for name, kind in named.items()}


@dataclass(frozen=True)
class OwnParty:
    """A client with functions of its own."""

    trains: TrainFunction
    scores: EvaluateFunction
    sizes: Callable[[Context], Mapping[str, int]] | None
    labels: LabelsFunction | None
    tells: bool = True
    hyperparameters: tuple[str, ...] | None = None

    def hello(self, context: Context) -> Hello:
        """Who it is, by its node's config."""
        sizes = {"train": 1, "validation": 1} if self.sizes is None else self.sizes(context)
        told = {split: int(sizes.get(split, 0)) for split in SPLITS}
        if not self.tells:
            told = {split: min(rows, 1) for split, rows in told.items()}
        return Hello(*named(context), told, training=OWN, hyperparameters=self.hyperparameters)

    def rows(self, context: Context) -> int:
        """How many it trains on; 1 where it does not say."""
        return 1 if self.sizes is None else int(self.sizes(context).get("train", 0))

    def train(self, arrays: dict[str, NDArray[np.float32]], task: Task, context: Context) -> Trained:
        """Train by the user's function, after a rule was resolved."""
        if task.rule is not None:
            if self.labels is None:
                raise InputError("the client's app does not say what its labels are: client(..., labels=...)")
            config = rule_of(task.rule).resolve(*self.labels(context))
            return replace(
                self.trains(arrays, replace(task, config=config, rule=None), context), samples=None
            )
        return self.trains(arrays, task, context)

    def evaluate(self, arrays: dict[str, NDArray[np.float32]], task: Task, context: Context) -> Scored:
        """Score by the user's function."""
        return self.scores(arrays, task, context)


def named(context: Context) -> tuple[int | None, str | None]:
    """The partition id and the name in a node's config."""
    partition, name = context.node_config.get("partition-id"), context.node_config.get("name")
    return None if partition is None else int(partition), None if name is None else str(name)


def _replied(message: Message, do: Callable[[Task, Any, Any], tuple[dict[str, Any], Any]]) -> Message:
    """The reply to all tasks of a message; what fails is told for each by itself."""
    asked = messages.facts(message)
    replies: list[dict[str, Any]] = []
    models: dict[str, Any] = {}
    for place, one in enumerate(asked["tasks"]):
        task = Task.from_dict(one, asked["client"])
        try:
            reply, arrays = do(task, _model(message, one), one.get("query"))
            reply = {"trial": task.trial, **reply}
            if isinstance(arrays, bytes):
                reply["arrays"] = f"model-{place}"
                models[f"model-{place}"] = arrays
            elif not all(np.isfinite(array).all() for array in arrays.values()):
                reply = {"trial": task.trial, "failure": messages.DIVERGED}
            elif arrays:
                reply["arrays"] = f"model-{place}"
                models[f"model-{place}"] = encode(arrays)
        except TaskMissing as late:
            reply = {"trial": task.trial, "missing": str(late)}
        except Exception as error:  # a task that fails is told, it does not take the others with it
            reply = {"trial": task.trial, "failure": _what(error)}
        replies.append(reply)
    return Message(messages.content({"replies": replies}, models), reply_to=message)


def _model(message: Message, asked: Mapping[str, Any]) -> Any:
    """The model that came with a task: named arrays, or bytes."""
    name = asked.get("arrays")
    if name is None:
        return {}
    if isinstance(message.content.get(name), ArrayRecord):
        return decode(messages.arrays_of(message, name))
    return messages.bytes_of(message, name, sys.maxsize)


#: What tells how many rows a client has: an accuracy does, as a share of so many.
_TELLS_SIZE = ("train_size", "validation_size", "samples", "accuracy_before", "accuracy_after")


def _trained(
    party: Party, task: Task, arrays: Any, context: Context
) -> tuple[dict[str, Any], NamedArrays | bytes]:
    """The facts of a reply, and the model. Of a rule, nothing leaves that only its look-up needed."""
    trained = party.train(arrays, task, context)
    facts = {name: value for name, value in vars(trained).items() if name != "arrays" and value is not None}
    if task.rule is not None and not (party.tells and task.weighting == BY_SIZE):
        facts = {name: value for name, value in facts.items() if name not in _TELLS_SIZE}
    return facts, trained.arrays


def _refuse_secure_aggregation(app: ClientApp) -> None:
    """Flower's SecAgg+ is a mod of the client app."""
    for mod in getattr(app, "_mods", ()):
        if "secagg" in getattr(mod, "__name__", "").lower():
            raise InputError(
                "Flower's SecAgg+ cannot carry the messages of a tuning run (several models in one message, "
                "scores beside them), and under it the server sees no single update, so that no robust rule "
                "could work: leave the mod out"
            )


def _answered(found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    answer, cost = found if isinstance(found, tuple) else (found, {})
    return {"answer": answer, "cost": cost}, {}


def _what(error: Exception) -> str:
    told = isinstance(error, FedhpoError | Rejected | TaskFailed)
    return str(error) if told else in_words(error)
