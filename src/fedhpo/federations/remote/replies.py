"""A client's reply to a task, checked: trial, sizes and scores, then the arrays."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import FedhpoError
from fedhpo.core.vectors import Vector
from fedhpo.engine.executor import JobResult
from fedhpo.engine.flat import finite
from fedhpo.federations.remote.layout import Layout, Rejected
from fedhpo.federations.remote.messages import Scored
from fedhpo.federations.remote.transport import Incoming
from fedhpo.protocol.bounds import MOST, NO_SCORE, range_of, trouble_with
from fedhpo.protocol.errors import TaskFailed as TaskFailed
from fedhpo.protocol.errors import TaskMissing as TaskMissing
from fedhpo.protocol.federation import Cost
from fedhpo.protocol.reasons import Reason, Why, raised, told


def failure_of(error: BaseException) -> dict[str, Any]:
    """What a client replies in the place of a result, after this was raised."""
    if isinstance(error, TaskFailed):
        reason = error.reason
    elif isinstance(error, FedhpoError | Rejected):  # its sentence says it all
        reason = Reason(Why.RAISED, str(error))
    else:
        reason = raised(error)
    return {"failure": reason.text, **reason.facts}


def read_trained(
    reply: Any,
    message: Incoming,
    trial: int,
    layout: Layout,
    most_rows: int,
    *,
    by_rule: bool = False,
    least_loss: float = -MOST,
) -> tuple[JobResult, Vector]:
    """The result of training, and the model after it as a vector.

    A client that looked up its hyperparameters `by_rule` may keep its sizes: it then counts as one row.
    """
    found = facts_of(reply, trial)
    if by_rule:
        scored = any(found.get(f"loss_{when}") is not None for when in ("before", "after"))
        found = {"train_size": 1, "validation_size": int(scored), **found}
    rows = size_in(found, "train_size", 1, most_rows)
    result = JobResult(
        train_size=rows,
        validation_size=size_in(found, "validation_size", 0, most_rows),
        loss_before=score_in(found, "loss_before", least_loss),
        accuracy_before=score_in(found, "accuracy_before", 0.0, 1.0),
        loss_after=score_in(found, "loss_after", least_loss),
        accuracy_after=score_in(found, "accuracy_after", 0.0, 1.0),
        samples=size_in({"samples": rows} | _given(found, "samples"), "samples", 0, 1 << 53),
    )
    vector = layout.join(message.arrays(found.get("arrays"), layout))
    if not finite(vector):
        # Not in the words for an honest client whose training diverged, from which methods learn.
        raise Rejected("its arrays hold NaN or infinite numbers")
    return result, vector


def read_boosted(
    reply: Any, message: Incoming, trial: int, most_rows: int, most_bytes: int
) -> tuple[int, int, bytes]:
    """Training rows, validation rows, and the trees, not looked at yet."""
    found = facts_of(reply, trial)
    return (
        size_in(found, "train_size", 1, most_rows),
        size_in(found, "validation_size", 0, most_rows),
        message.bytes(found.get("arrays"), most_bytes),
    )


def read_fitted(reply: Any, trial: int, most_rows: int) -> tuple[int, int, Any]:
    """Training rows, validation rows, and the name of the record of weights, if there is one."""
    found = facts_of(reply, trial)
    sizes = (size_in(found, "train_size", 1, most_rows), size_in(found, "validation_size", 0, most_rows))
    return *sizes, found.get("arrays")


def read_scored(
    reply: Any,
    trial: int,
    most_rows: int,
    metrics: Sequence[str] = (),
    *,
    least_loss: float = -MOST,
    untrained: bool = False,
) -> Scored:
    """The result of an evaluation, with the further metrics that were asked for.

    A learner has no score before it is trained: then a reply without any has not failed.
    """
    found = facts_of(reply, trial)
    further = found.get("metrics") or {}
    if not isinstance(further, dict):
        raise Rejected(f"metrics is {type(further).__name__}, expected an object")
    scored = Scored(
        size_in(found, "size", 0, most_rows, "most_rows"),
        score_in(found, "loss", least_loss),
        score_in(found, "accuracy", 0.0, 1.0),
        {name: score_in(further, name, *range_of(name)) for name in metrics},
    )
    empty = all(map(math.isnan, (scored.loss, scored.accuracy, *scored.metrics.values())))
    if scored.size and empty and not untrained:
        raise TaskFailed(NO_SCORE)
    return scored


def read_answer(reply: Any) -> tuple[Any, Cost]:
    """The answer to a query, and what the client says it took."""
    found = _mapping(reply)
    if "answer" not in found:
        raise Rejected("the reply holds no answer")
    cost = found.get("cost") or {}
    if not isinstance(cost, dict):
        raise Rejected(f"cost is {type(cost).__name__}, expected an object")
    return found["answer"], Cost(
        samples=size_in(cost, "samples", 0, 1 << 53), evaluations=size_in(cost, "evaluations", 0, 1 << 32)
    )


def token_of(task: Mapping[str, Any]) -> str:
    """What a reply names its task by, so that one of an earlier round is not taken for it.

    The name of the model in a message is the message's own.
    """
    told = {name: value for name, value in task.items() if name != "arrays"}
    return f"{zlib.crc32(canonical(json.loads(json.dumps(told)))):08x}"


def check_token(reply: Any, task: Mapping[str, Any]) -> None:
    """Refuse a reply that names another task; a client of 0.2.0 names none."""
    if isinstance(reply, dict) and "task" in reply and reply["task"] != token_of(task):
        raise Rejected("the reply is to another task: of an earlier round, another trial or other settings")


def facts_of(reply: Any, trial: int) -> Mapping[str, Any]:
    """The reply's part about one trial; a reported failure is raised."""
    found = _mapping(reply)
    if found.get("trial") != trial or isinstance(found.get("trial"), bool):
        raise Rejected(f"the reply is to trial {str(found.get('trial'))[:20]}, asked was trial {trial}")
    return found


def _mapping(reply: Any) -> Mapping[str, Any]:
    if not isinstance(reply, dict):
        raise Rejected(f"the reply is {type(reply).__name__}, expected an object")
    if "missing" in reply:
        raise TaskMissing(told(reply["missing"], reply, missing=True))
    if "failure" in reply:
        raise TaskFailed(told(reply["failure"], reply))
    return reply


def _given(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {} if found.get(name) is None else {name: found[name]}


def size_in(found: Mapping[str, Any], name: str, low: int, high: int, limit: str = "") -> int:
    """A number of rows, or of the like; `limit` is the setting that bounds it."""
    value = found.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        of = f" ({limit} = {high})" if limit else ""
        raise Rejected(f"{name} is {str(value)[:30]}, expected a whole number in {low}..{high}{of}")
    return value


def score_in(found: Mapping[str, Any], name: str, least: float = -MOST, most: float = MOST) -> float:
    """A score between these bounds; NaN where there is none. An infinite loss means that a model diverged."""
    value = found.get(name)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"{name} is {str(value)[:30]!r}, expected a number")
    try:
        number = float(value)
    except OverflowError:  # a whole number of more digits than a float can have
        raise Rejected(f"{name} is {str(value)[:30]}..., expected a number") from None
    trouble = trouble_with(name, number, least, most)
    if trouble is not None:
        raise TaskFailed(trouble) if trouble.why == Why.DIVERGED else Rejected(trouble.text)
    return number
