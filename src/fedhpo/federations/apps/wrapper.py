"""`wrap`: a `ClientApp` that answers a tuning server by the functions of another, which stays as it is.

For each task the app's own function is called with a message such as its own server would send, and with a
new `Context` whose run config holds the trial's values. Other messages go to the app unchanged.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.app.message import make_message
from flwr.clientapp import ClientApp

from fedhpo.core.errors import InputError
from fedhpo.core.reads import ReadConfig
from fedhpo.core.streams import derive, seeded
from fedhpo.federations.apps.literals import bound
from fedhpo.federations.apps.quiet import to_standard_error
from fedhpo.federations.apps.records import EXAMPLES, content_for, metrics_of_reply, records_of
from fedhpo.federations.flower import messages as wire
from fedhpo.federations.remote import messages
from fedhpo.federations.remote.clients import APP, Hello
from fedhpo.federations.remote.replies import TaskFailed, failure_of, token_of
from fedhpo.protocol.reasons import Reason, Why

_STATE = "fedhpo.trial"
#: In the names of arrays that BatchNorm keeps.
_NORMALISED = ("running_mean", "running_var", "num_batches_tracked")


class _WrappedApp(ClientApp):
    """A `ClientApp` that another process gets by importing its module, so that this does its own part there.

    Flower's simulation sends an app to Ray's actors, as references to the functions of the app's own modules.
    """

    module: str | None = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.module is None:
            return super().__reduce_ex__(protocol)
        return _app_in, (self.module,)


def _app_in(module: str) -> ClientApp:
    found: ClientApp = importlib.import_module(module).app
    return found


def wrap(app: ClientApp, *, module: str | None = None) -> ClientApp:
    """The same app, which also answers `fedhpo tune`: `app = fedhpo.flower.wrap(app)`.

    With `module` other processes get it as `app` of that module, by importing it.
    """
    for mod in getattr(app, "_mods", ()):
        if "secagg" in getattr(mod, "__name__", "").lower():
            raise InputError("Flower's SecAgg+ cannot carry the messages of a tuning run: leave the mod out")
    outer = _WrappedApp()
    outer.module = module

    def answer(message: Message, context: Context) -> Message:
        if wire.RECORD not in message.content:
            return app(message, context)
        return _answered(app, message, context)

    outer.train()(answer)
    outer.evaluate()(answer)
    outer.query(messages.HELLO)(_hello)
    return outer


def _hello(message: Message, context: Context) -> Message:
    partition, name = context.node_config.get("partition-id"), context.node_config.get("name")
    hello = Hello(
        None if partition is None else int(partition),
        None if name is None else str(name),
        {"train": 1, "validation": 1, "test": 0},  # how many rows there are is told with each reply
        training=APP,
    )
    return Message(wire.content({"replies": [{"answer": hello.to_dict()}]}), reply_to=message)


def _answered(app: ClientApp, message: Message, context: Context) -> Message:
    asked = wire.facts(message)
    replies: list[dict[str, Any]] = []
    models: dict[str, Any] = {}
    train = message.metadata.message_type.partition(".")[0] == messages.TRAIN
    for place, one in enumerate(asked["tasks"]):
        task = _AppTask(app, message, context, one, int(asked["client"]))
        try:
            facts, arrays = task.train() if train else (task.evaluate(), None)
            if arrays is not None:
                models[f"model-{place}"] = dict(arrays.items())
                facts = {**facts, "arrays": f"model-{place}"}
            replies.append({"trial": one["trial"], "task": token_of(one), **facts})
        except Exception as error:  # a task that fails is told, it does not take the others with it
            replies.append({"trial": one["trial"], "task": token_of(one), **failure_of(error)})
    return Message(wire.content({"replies": replies}, models), reply_to=message)


class _AppTask:
    """One task, put to the app in its own words."""

    def __init__(
        self, app: ClientApp, message: Message, context: Context, task: Mapping[str, Any], client: int
    ) -> None:
        self._app, self._message, self._context = app, message, context
        self._task, self._how, self._client = task, task["app"], client
        self._arrays = wire.arrays_of(message, task.get("arrays"))
        self._bound: set[str] = set()  # literals that the app's code came by
        self._forget()

    def train(self) -> tuple[dict[str, Any], ArrayRecord]:
        scores = self._task["scores"]
        # A library may abort the process over a model of no bytes, as XGBoost does.
        whole = all(array.numpy().size for array in self._arrays.values())
        before = self._scores(self._arrays) if "before" in scores and whole else {}
        reply, config = self._call(
            messages.TRAIN, self._arrays, self._how["config"], self._how["run"], self._how.get("literals", {})
        )
        arrays, records = records_of(reply)
        values = [array.numpy() for array in arrays.values()]
        if not all(np.isfinite(value).all() for value in values if value.dtype.kind in "fc"):
            raise TaskFailed(Reason(Why.DIVERGED))
        after = self._scores(arrays) if "after" in scores else {}
        facts = {
            "metrics": metrics_of_reply(reply),
            "records": records,
            "read": None if config.everything else sorted(config.seen),
            "bound": sorted(self._bound),
            "keeps_state": bool(self._context.state),
            **{f"{name}_before": value for name, value in before.items() if name != "size"},
            **{f"{name}_after": value for name, value in after.items() if name != "size"},
            "validation_size": (after or before).get("size", 0),
        }
        return facts, arrays

    def evaluate(self) -> dict[str, Any]:
        """What `read_scored` reads."""
        found = self._evaluated(self._arrays)
        return {**scored(found, self._how), "metrics": {k: v for k, v in found.items() if k != EXAMPLES}}

    def _scores(self, arrays: ArrayRecord) -> dict[str, Any]:
        return scored(self._evaluated(arrays), self._how)

    def _evaluated(self, arrays: ArrayRecord) -> dict[str, Any]:
        """The app's metrics, under its default config but for the keys of the model's shape."""
        if "at_zero" in self._how:
            return self._trained_at_zero(arrays)
        reply, _ = self._call(messages.EVALUATE, arrays, self._how["evaluate"], {}, {})
        return metrics_of_reply(reply)

    def _trained_at_zero(self, arrays: ArrayRecord) -> dict[str, Any]:
        """The training metrics of the received model at learning rate 0; the trained model is discarded."""
        zero = self._how["at_zero"]
        reply, _ = self._call(messages.TRAIN, arrays, zero["config"], zero["run"], zero["literals"])
        after, _ = records_of(reply)
        moved = [
            name
            for name, array in arrays.items()
            if name not in after or not np.array_equal(array.numpy(), after[name].numpy())
        ]
        if moved:
            normalised = any(word in name for name in moved for word in _NORMALISED)
            why = " (BatchNorm moves its averages whatever the rate)" if normalised else ""
            raise TaskFailed(
                f"training with {', '.join(zero['names'])} at 0 changes the model all the same: "
                f"{', '.join(moved[:3])}{why}; leave objective.at_zero out, or name all learning rates there"
            )
        return metrics_of_reply(reply)

    def _call(
        self,
        kind: str,
        arrays: ArrayRecord,
        config: Mapping[str, Any],
        run: Mapping[str, Any],
        literals: Mapping[str, Any],
    ) -> tuple[Message, ReadConfig]:
        """The app's own function, under the trial's seed, with a context and a state of the trial's."""
        outer = self._context
        shape = self._how.get("shape", {})  # literals that shape the model hold in every call
        run_config = ReadConfig({**outer.run_config, **self._how.get("base", {}), **self._shape_keys, **run})
        state = self._own_state()
        told = dict(run_config) if self._how.get("plain") else run_config
        context = Context(outer.run_id, outer.node_id, outer.node_config, state, told)
        metadata = copy.copy(self._message.metadata)
        metadata.message_type = kind
        content = content_for(kind, self._how, arrays, config)
        # Not `Message(content, dst_node_id=...)`, which a Ray actor may not write.
        seed = derive(*map(int, self._task["seed"]), self._client) if self._task["seed"] else derive(0, kind)
        with seeded(seed), bound({**shape, **literals}, self._bound), to_standard_error():
            reply = self._app(make_message(metadata, content), context)
        if reply.has_error():
            raise TaskFailed(f"the app replied with an error: {reply.error.reason}")
        if kind == messages.EVALUATE or "at_zero" not in self._how:
            self._keep_state(context.state)
        return reply, run_config

    @property
    def _shape_keys(self) -> dict[str, Any]:
        """The run config keys of the model's shape."""
        return {key: value for key, value in self._task["model"].items() if ":" not in key}

    # The app's state at this client, apart for each trial

    @property
    def _prefix(self) -> str:
        return f"{_STATE}.{self._task['trial']}."

    def _own_state(self) -> RecordDict:
        held, prefix = self._context.state, self._prefix
        return RecordDict({k.removeprefix(prefix): held[k] for k in held if k.startswith(prefix)})

    def _keep_state(self, state: RecordDict) -> None:
        held, prefix = self._context.state, self._prefix
        for key in [key for key in held if key.startswith(prefix)]:
            del held[key]
        for key, record in state.items():
            held[prefix + key] = record

    def _forget(self) -> None:
        """Drop the state of trials that have been stopped."""
        held, alive = self._context.state, {f"{_STATE}.{trial}." for trial in self._how["alive"]}
        for key in [key for key in held if key.startswith(f"{_STATE}.")]:
            if not any(key.startswith(prefix) for prefix in alive):
                del held[key]


def scored(metrics: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """Rows, loss and accuracy, the objective's metric in the place of both.

    >>> scored({"eval_acc": 0.75, "num-examples": 8}, {"metric": "eval_acc", "maximise": True})
    {'size': 8, 'loss': 0.25, 'accuracy': 0.75}
    """
    name, maximise = how["metric"], how["maximise"]
    if name not in metrics:
        what = "training" if "at_zero" in how else "evaluate"
        raise TaskFailed(f"the app's {what} returns {', '.join(sorted(metrics)) or 'nothing'}: no {name!r}")
    value = float(metrics[name])
    share = maximise and 0 <= value <= 1
    return {
        "size": int(metrics.get(EXAMPLES, 1)),
        "loss": 1 - value if maximise else value,
        "accuracy": value if share else math.nan,
    }
