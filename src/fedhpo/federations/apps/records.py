"""The records of an app's messages: what is sent to a client, and what a reply holds, in numbers and JSON.

Apps of Flower's older API (`client_fn`, `NumPyClient`) get and send the records that Flower itself makes of
their `FitIns`, `FitRes`, `EvaluateIns` and `EvaluateRes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from fedhpo.federations.remote.messages import TRAIN
from fedhpo.federations.remote.replies import TaskFailed

#: Under this name apps tell how many rows a metric is over.
EXAMPLES = "num-examples"
#: By task, the first part of the names of the older API's records.
_ASKED = {True: "fitins", False: "evaluateins"}
_REPLIED = ("fitres", "evaluateres")


def content_for(
    kind: str, how: Mapping[str, Any], arrays: ArrayRecord, config: Mapping[str, Any]
) -> RecordDict:
    """What the app's own server would send: the model, and the config of its strategy."""
    first, second = how["keys"]
    if how.get("legacy"):
        name = _ASKED[kind == TRAIN]
        first, second = f"{name}.parameters", f"{name}.config"
    return RecordDict({first: arrays, second: ConfigRecord(dict(config))})


def records_of(reply: Message) -> tuple[ArrayRecord, dict[str, Any]]:
    """The arrays of a reply to train, and the rest as JSON."""
    found = dict(reply.content.array_records.items())
    if not found:
        raise TaskFailed("the app's reply to train holds no ArrayRecord")
    if len(found) > 1:
        raise TaskFailed(
            f"the app's reply to train holds {len(found)} ArrayRecords ({', '.join(map(repr, found))}): a "
            "tuning run carries one model for each client"
        )
    [(name, arrays)] = found.items()
    _check_status(reply)
    configs = {key: dict(record) for key, record in reply.content.config_records.items()}
    for key, record in configs.items():
        for field, value in record.items():
            if isinstance(value, bytes):
                raise TaskFailed(f"the app's reply holds bytes ({key}.{field}): they cannot be carried")
    metrics = {key: dict(record) for key, record in reply.content.metric_records.items()}
    # The older API writes neither types nor shapes beside its arrays: numpy's own header has them.
    plain = ArrayRecord({key: Array(one.numpy()) if not one.dtype else one for key, one in arrays.items()})
    return plain, {"arrays": name, "metrics": metrics, "configs": configs}


def metrics_of_reply(reply: Message) -> dict[str, Any]:
    """The numbers of all metric records of a reply; those of a list are called `name[0]`, `name[1]`, ..."""
    _check_status(reply)
    found: dict[str, Any] = {}
    for key, record in reply.content.metric_records.items():
        old = key.partition(".")[0] in _REPLIED
        for name, value in record.items():
            found |= numbers(EXAMPLES if old and name == "num_examples" else name, value)
    for key, one in reply.content.config_records.items():
        if key in [f"{name}.metrics" for name in _REPLIED]:
            for name, told in one.items():
                found |= numbers(name, told)
    return found


def numbers(name: str, value: Any) -> dict[str, Any]:
    """A metric's numbers.

    >>> numbers("loss", 0.5), numbers("recall", [0.5, 1.0]), numbers("note", "good")
    ({'loss': 0.5}, {'recall[0]': 0.5, 'recall[1]': 1.0}, {})
    """
    if isinstance(value, list | tuple):
        return {f"{name}[{place}]": one for place, one in enumerate(value) if isinstance(one, int | float)}
    return {name: value} if isinstance(value, int | float) else {}


def _check_status(reply: Message) -> None:
    """A client of the older API that lacks a method replies all the same, with zeros."""
    for name in _REPLIED:
        status = reply.content.config_records.get(f"{name}.status")
        if status is not None and status["code"] != 0:
            what = "fit" if name == "fitres" else "evaluate"
            raise TaskFailed(f"the app's client has no {what}: {str(status['message']) or 'not implemented'}")


def not_finite(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The metrics that are neither finite numbers nor lists of these."""
    for record in records.values():
        for name, value in record.items():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, bool) or not isinstance(one, int | float) or not math.isfinite(one):
                    yield name
                    break
