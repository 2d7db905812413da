"""What a client says of a task, checked: trial, sizes and scores, then the arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import FedhpoError
from fedhpo.core.vectors import Vector
from fedhpo.engine.executor import JobResult
from fedhpo.engine.flat import finite
from fedhpo.federations.remote.layout import Layout, Rejected
from fedhpo.federations.remote.messages import Scored
from fedhpo.federations.remote.transport import Incoming
from fedhpo.protocol.federation import Cost
from fedhpo.protocol.reasons import Reason, Why, as_reason, raised, told


class TaskFailed(Exception):
    """The client says that it failed; `reason` says why."""

    def __init__(self, reason: Reason | str) -> None:
        super().__init__(str(reason))
        self.reason = as_reason(reason, failed=True)


class TaskMissing(Exception):
    """The client says that it was not done in time; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


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
    reply: Any, message: Incoming, trial: int, layout: Layout, most_rows: int, *, by_rule: bool = False
) -> tuple[JobResult, Vector]:
    """The result of training, and the model after it as a vector.

    A client that looked up its hyperparameters `by_rule` may keep its sizes: it then counts as one row.
    """
    found = facts_of(reply, trial)
    if by_rule:
        scored = any(found.get(f"loss_{when}") is not None for when in ("before", "after"))
        found = {"train_size": 1, "validation_size": int(scored), **found}
    rows = _size(found, "train_size", 1, most_rows)
    result = JobResult(
        train_size=rows,
        validation_size=_size(found, "validation_size", 0, most_rows),
        loss_before=score_in(found, "loss_before"),
        accuracy_before=score_in(found, "accuracy_before", share=True),
        loss_after=score_in(found, "loss_after"),
        accuracy_after=score_in(found, "accuracy_after", share=True),
        samples=_size({"samples": rows} | _given(found, "samples"), "samples", 0, 1 << 53),
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
        _size(found, "train_size", 1, most_rows),
        _size(found, "validation_size", 0, most_rows),
        message.bytes(found.get("arrays"), most_bytes),
    )


def read_fitted(reply: Any, trial: int, most_rows: int) -> tuple[int, int, Any]:
    """Training rows, validation rows, and the name of the record of weights, if there is one."""
    found = facts_of(reply, trial)
    sizes = (_size(found, "train_size", 1, most_rows), _size(found, "validation_size", 0, most_rows))
    return *sizes, found.get("arrays")


def read_scored(reply: Any, trial: int, most_rows: int, metrics: Sequence[str] = ()) -> Scored:
    """The result of an evaluation, with the further metrics that were asked for."""
    found = facts_of(reply, trial)
    further = found.get("metrics") or {}
    if not isinstance(further, dict):
        raise Rejected(f"metrics is {type(further).__name__}, expected an object")
    return Scored(
        _size(found, "size", 0, most_rows),
        score_in(found, "loss"),
        score_in(found, "accuracy", share=True),
        {name: score_in(further, name) for name in metrics},
    )


def read_answer(reply: Any) -> tuple[Any, Cost]:
    """The answer to a query, and what the client says it took."""
    found = _mapping(reply)
    if "answer" not in found:
        raise Rejected("the reply holds no answer")
    cost = found.get("cost") or {}
    if not isinstance(cost, dict):
        raise Rejected(f"cost is {type(cost).__name__}, expected an object")
    return found["answer"], Cost(
        samples=_size(cost, "samples", 0, 1 << 53), evaluations=_size(cost, "evaluations", 0, 1 << 32)
    )


def facts_of(reply: Any, trial: int) -> Mapping[str, Any]:
    """What a reply says of the trial that was asked about; a failure that it tells is raised."""
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


def _size(found: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = found.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Rejected(f"{name} is {str(value)[:30]}, expected a whole number in {low}..{high}")
    return value


def score_in(found: Mapping[str, Any], name: str, *, share: bool = False) -> float:
    """A score; NaN where there is none. A loss may be infinite, as that of a model that has diverged."""
    value = found.get(name)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"{name} is {str(value)[:30]!r}, expected a number")
    if share and not 0 <= value <= 1 and value == value:
        raise Rejected(f"{name} is {str(value)[:30]}, expected a number in 0..1")
    try:
        return float(value)
    except OverflowError:  # a whole number of more digits than a float can have
        raise Rejected(f"{name} is {str(value)[:30]}..., expected a number") from None
