"""`client`: makes a Flower `ClientApp` understand what the server asks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from fedhpo.core.errors import InputError
from fedhpo.federations.flower import messages as wire
from fedhpo.federations.flower.arrays import decode, encode
from fedhpo.federations.flower.identity import RUNTIME
from fedhpo.parties.answers import Replied, query_answer
from fedhpo.parties.party import EvaluateFunction, LabelsFunction, QueryFunction, TrainFunction
from fedhpo.parties.searching import SearchFunction, searching
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.study.answers import answers

if TYPE_CHECKING:
    from fedhpo.study import Study


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
    >>> from fedhpo.flower import Scored, Trained
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
    _refuse_secure_aggregation(app)
    known = answers(
        runtime=RUNTIME,
        memory_of=_Memory,
        study=study,
        data=data,
        device=device,
        tell_sizes=tell_sizes,
        train=train,
        evaluate=evaluate,
        sizes=sizes,
        labels=labels,
        search=search,
        hyperparameters=hyperparameters,
        queries=queries,
        privacy=privacy,
        hold_replies=hold_replies,
    )

    for kind in known.kinds:
        category, _, name = kind.partition(".")
        register = getattr(app, category)
        (register(name) if name else register())(_handler(partial(known, kind)))
    return app


def local_search(search: SearchFunction, rows: int) -> Callable[[Message, Context], Message]:
    """Answers FLoRA's local searches in a `ClientApp` of your own, which `client` knows nothing of.

    `search(config, context)` returns the loss of a config on the client's `rows` rows, less is better.

    >>> app = ClientApp()
    >>> def search(config, context):
    ...     return abs(config["lr"] - 0.1)
    >>> answer = app.query("local_search")(local_search(search, rows=900))
    """
    return _handler(query_answer(searching(search, lambda _: rows)))


def _handler(replied: Replied) -> Callable[[Message, Context], Message]:
    """What Flower calls with a message."""

    def answer(message: Message, context: Context) -> Message:
        replies, models = replied(wire.facts(message), lambda name: _model(message, name), context)
        encoded = {
            name: model if isinstance(model, bytes) else encode(model) for name, model in models.items()
        }
        return Message(wire.content({"replies": replies}, encoded), reply_to=message)

    return answer


class _Memory:
    """What a node keeps, in the state that Flower holds for it."""

    def __init__(self, context: Context) -> None:
        self._state = context.state

    def recall(self, key: str) -> str | None:
        """What was kept; None if nothing was."""
        kept = self._state.get(key)
        return str(kept[wire.FIELD]) if isinstance(kept, ConfigRecord) else None

    def keep(self, key: str, text: str) -> None:
        """Keep it."""
        self._state[key] = ConfigRecord({wire.FIELD: text})


def _model(message: Message, name: Any) -> Any:
    """A model that came with a message: named arrays, or bytes."""
    if isinstance(message.content.get(name), ArrayRecord):
        return decode(wire.arrays_of(message, name))
    return wire.bytes_of(message, name, sys.maxsize)


def _refuse_secure_aggregation(app: ClientApp) -> None:
    """Flower's SecAgg+ is a mod of the client app."""
    for mod in getattr(app, "_mods", ()):
        if "secagg" in getattr(mod, "__name__", "").lower():
            raise InputError(
                "Flower's SecAgg+ cannot carry the messages of a tuning run (several models in one message, "
                "scores beside them), and under it the server sees no single update, so that no robust rule "
                "could work: leave the mod out"
            )
