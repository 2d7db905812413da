"""The record as learning curves: readable without the method that made it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.core.run_errors import DamageError
from fedhpo.protocol.federation import Cost, RoundReport, Scores, Status
from fedhpo.run.codec import unpack
from fedhpo.run.record import Event, Record

_REPORTED = ("loss_before", "loss_after", "accuracy_before", "accuracy_after")
_SCORED = ("loss", "accuracy")
#: How many replies of each status there are, in the order of their numbers.
_STATUS = [status.name.lower() for status in sorted(Status)]


def history(record: Record) -> list[dict[str, Any]]:
    """One row per trial and round (`kind` is "round") or evaluation ("evaluate"), in order.

    A row holds event, kind, trial and round; the split of an evaluation; how many clients were ok,
    failed and missing; means by size of the scores (None where there is none); and what the run had
    spent when the event was over: costs, epsilon and wall time. Where time is simulated, a round's row
    tells when it began and ended (`simulated_begin`, `simulated_end`, in seconds). Of a private evaluation
    it is the score as it was released, noise and all but clamped to [0, 1], and how many replied: more was
    not told. The record holds it unclamped.
    """
    rows = []
    cost, epsilon, seconds = Cost(), 0.0, 0.0
    rounds: dict[int, int] = {}
    for event in record.events():
        cost, epsilon, seconds = cost + event.cost, epsilon + event.epsilon, seconds + event.seconds
        try:
            found = rows_of(event, rounds)
        except Exception as error:
            raise DamageError(record.path, f"event {event.number}: {error}") from error
        spent = {**vars(cost), "epsilon": epsilon, "seconds": seconds}
        rows += [{"event": event.number, **row, **spent} for row in found]
    return rows


def rows_of(event: Event, rounds: dict[int, int]) -> list[dict[str, Any]]:
    """The rows of one event, without costs; advances `rounds`, the trials' round counters."""
    if event.kind in ("fork", "mix"):  # the target takes over the round clock
        forked = json.loads(event.call)
        rounds[forked["target"]] = rounds.get(forked["source"], 0)
    if event.kind == "decide release" and event.result is not None:
        return _released(json.loads(event.call), json.loads(event.result))
    if event.kind not in ("round", "done", "evaluate"):
        return []
    items: Sequence[RoundReport | Scores] = unpack(event.result or b"")
    rounds.update({item.trial: item.round for item in items if isinstance(item, RoundReport)})
    return [_row(item, rounds.get(item.trial, 0)) for item in items]


def _released(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The noisy means of a private evaluation."""
    nothing = dict.fromkeys((*(status.name.lower() for status in Status), *_REPORTED, *_SCORED))
    rows = []
    released = zip(asked["trials"], answer["values"], answer["replies"], strict=True)
    for (trial, number), noisy, replies in released:
        row = {"kind": "evaluate", "trial": trial, "round": number, "applied": None, "split": "validation"}
        value = None if noisy is None else min(1.0, max(0.0, noisy))
        rest = None if value is None else 1 - value
        if answer["metric"] == "balanced_accuracy":  # of learners, whose loss is 1 minus it
            told = {"loss": rest}
        else:
            told = {"accuracy": value if answer["metric"] == "accuracy" else rest}
        rows.append(row | nothing | {"ok": replies, **told})
    return rows


def _row(item: RoundReport | Scores, number: int) -> dict[str, Any]:
    trained = isinstance(item, RoundReport)
    return {
        "kind": "round" if trained else "evaluate",
        "trial": item.trial,
        "round": number,
        "applied": item.applied if isinstance(item, RoundReport) else None,
        "split": item.split if isinstance(item, Scores) else None,
        **dict(zip(_STATUS, np.bincount(item.status, minlength=len(_STATUS)).tolist(), strict=True)),
        **{name: _mean(item, name) if trained else None for name in _REPORTED},
        **{name: None if trained else _mean(item, name) for name in _SCORED},
        **({name: _mean(item, name) for name in item.metrics} if isinstance(item, Scores) else {}),
        **_span(item),
    }


def _span(item: RoundReport | Scores) -> dict[str, float]:
    """When a round began and ended by simulated time, where that is known."""
    if isinstance(item, Scores) or item.span is None:
        return {}
    return dict(zip(("simulated_begin", "simulated_end"), item.span, strict=True))


def _mean(item: RoundReport | Scores, score: str) -> float | None:
    mean = item.mean(score)
    return mean if math.isfinite(mean) else None
