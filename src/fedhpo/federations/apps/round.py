"""A trial of an app, and a round of it: what is sent, what comes back, what the strategy makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import Array, ConfigRecord, Message, MetricRecord
from numpy.typing import NDArray

from fedhpo.aggregation.sizes import beyond_use
from fedhpo.core.errors import InputError
from fedhpo.federations.apps.captured import Captured, replayed_config
from fedhpo.federations.apps.records import not_finite
from fedhpo.federations.apps.scoring import training_metrics
from fedhpo.federations.flower.arrays import decode_like
from fedhpo.federations.flower.messages import arrays_of
from fedhpo.federations.remote.layout import Rejected
from fedhpo.federations.remote.replies import TaskFailed, facts_of, score_in, size_in
from fedhpo.federations.strategies.state import StrategyState, set_state
from fedhpo.federations.strategies.step import (
    Reply,
    StrategyFailed,
    aggregated,
    configured,
    record_of,
    shared_part,
)
from fedhpo.protocol.bounds import MOST
from fedhpo.protocol.federation import Cost, Ints, RoundReport, Status, TrialState, Work
from fedhpo.protocol.reasons import Reason, Why

_MODEL, _STRATEGY = "model.", "strategy."
#: Rows that an app may say it has: its clients announce none beforehand.


@dataclass(frozen=True)
class AppTrial:
    """A model in training. Immutable: a round makes a new one."""

    model: Mapping[str, Any]
    seed: int
    arrays: Mapping[str, NDArray[Any]]
    strategy: StrategyState = field(default_factory=StrategyState)
    round: int = 0
    calls: int = 0
    #: What clients returned of training in the last round, over all of them.
    training: Mapping[str, float] = field(default_factory=dict)

    def state(self) -> TrialState:
        """What is needed to go on with it."""
        arrays = {f"{_MODEL}{name}": array for name, array in self.arrays.items()}
        arrays |= {f"{_STRATEGY}{name}": array for name, array in self.strategy.arrays.items()}
        facts = {
            "model": dict(self.model),
            "seed": self.seed,
            "round": self.round,
            "calls": self.calls,
            "names": list(self.arrays),  # a file of arrays does not keep their order
            "strategy": dict(self.strategy.attributes),
            **({"training": dict(self.training)} if self.training else {}),
        }
        return TrialState(arrays, facts)

    @classmethod
    def from_state(cls, state: TrialState) -> AppTrial:
        """What `state` gave."""
        facts = state.facts
        kept = {
            name.removeprefix(_STRATEGY): array
            for name, array in state.arrays.items()
            if name.startswith(_STRATEGY)
        }
        return cls(
            facts["model"],
            facts["seed"],
            {name: state.arrays[f"{_MODEL}{name}"] for name in facts["names"]},
            StrategyState(facts["strategy"], kept),
            facts["round"],
            facts["calls"],
            facts.get("training", {}),
        )


@dataclass(eq=False)
class RecordParcel:
    """Arrays of any type, as they travel."""

    arrays: Mapping[str, NDArray[Any]]

    @cached_property
    def content(self) -> Mapping[str, Array]:
        """The arrays as Flower's."""
        return dict(record_of(self.arrays).items())

    @property
    def bytes(self) -> int:
        """What they weigh."""
        return sum(int(array.nbytes) for array in self.arrays.values())


@dataclass(frozen=True)
class AppReply:
    """A client's reply to train, checked."""

    arrays: Mapping[str, NDArray[Any]]
    metrics: Mapping[str, Any]
    validation_size: int
    scores: Mapping[str, float]
    read: Sequence[str] | None
    keeps_state: bool
    size: int
    #: Its records by their own names; None where they are those of a plain app.
    records: Mapping[str, Any] | None = None
    bound: Sequence[str] = ()


@dataclass(eq=False)
class AppRound:
    """A round under way."""

    work: Work
    trial: AppTrial
    captured: Captured
    replies: list[AppReply | None] = field(init=False)
    status: NDArray[np.int8] = field(init=False)
    reasons: dict[int, Reason] = field(default_factory=dict)
    answered: int = 0
    _waiting: set[int] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.work.cohort)
        self.replies, self._waiting = [None] * count, set(range(count))
        self.status = np.zeros(count, np.int8)

    @property
    def complete(self) -> bool:
        """Whether every member has replied, or will not."""
        return not self._waiting

    def take(self, member: int, status: Status, why: Reason | None, value: AppReply | None) -> None:
        """A member's reply."""
        self._waiting.discard(member)
        self.status[member], self.replies[member] = status, value
        if why is None:
            self.answered += 1
        else:
            self.reasons[member] = why


def asked_config(
    captured: Captured, trial: AppTrial, values: Mapping[str, Any], cohort: Sequence[int]
) -> dict[int, dict[str, Any]]:
    """What the app's strategy sends to each client of a cohort beside the model, under these values."""
    strategy = captured.build()
    set_state(strategy, trial.strategy)
    record = record_of(trial.arrays)
    config = {**captured.train_config, **values}
    left = replayed_config(captured, trial.round + 1, record, config, len(cohort))
    sent = configured(strategy, trial.round + 1, trial.arrays, dict(left), cohort)
    found = {}
    for client, message in sent.items():
        [*records] = message.content.config_records.values()
        told = dict(records[0]) if records else {}
        for key, value in told.items():
            if isinstance(value, bytes):
                raise InputError(f"the app's train config holds bytes ({key!r}): they cannot be sent on")
        found[client] = {"config": told}
    return found


def read_trained(
    reply: Any,
    message: Message,
    trial: int,
    arrays: Mapping[str, NDArray[Any]],
    most_bytes: int,
    most_rows: int,
) -> AppReply:
    """A client's reply, checked before any strategy sees it."""
    found = facts_of(reply, trial)
    metrics = found.get("metrics")
    if not isinstance(metrics, dict) or not all(
        isinstance(value, int | float) and math.isfinite(value) for value in metrics.values()
    ):
        raise Rejected("its metrics must be finite numbers by name")
    read = found.get("read")
    record = arrays_of(message, found.get("arrays"))
    after = decode_like(record, shared_part(arrays, record), most_bytes)
    for name, array in after.items():
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            raise Rejected(f"its array {name!r} holds NaN or infinite numbers")
        if array.dtype.kind == "f" and beyond_use(array, arrays[name]):
            raise TaskFailed(Reason(Why.TOO_LARGE))
    moments = ("loss_before", "loss_after", "accuracy_before", "accuracy_after")
    size = metrics.get("num-examples", 1)
    if size > most_rows:
        raise Rejected(f"num-examples is {size:.6g}, expected at most {most_rows} (most_rows)")
    for name in metrics:
        score_in(metrics, name)
    bounds = {name: (0.0, 1.0) if name.startswith("accuracy") else (-MOST, MOST) for name in moments}
    return AppReply(
        after,
        metrics,
        size_in({"validation_size": 0, **found}, "validation_size", 0, most_rows),
        {name: score_in(found, name, *bounds[name]) for name in moments},
        [str(key) for key in read] if isinstance(read, list) else None,
        bool(found.get("keeps_state")),
        int(size) if size > 0 else 1,
        _checked_records(found.get("records")),
        [str(name) for name in found.get("bound") or ()],
    )


def _checked_records(given: Any) -> Mapping[str, Any] | None:
    """A reply's records of metrics and configs, as a client says."""
    if given is None:
        return None
    tables = [given.get(kind) for kind in ("metrics", "configs")] if isinstance(given, dict) else [None]
    if not all(isinstance(one, dict) and all(isinstance(t, dict) for t in one.values()) for one in tables):
        raise Rejected("its records must be tables by name")
    for name in not_finite(given["metrics"]):
        raise Rejected(f"its metric {name!r} must be a finite number, or a list of these")
    return {**given, "arrays": str(given.get("arrays", "arrays"))}


def closed(
    one: AppRound, minimum: int, limits: Ints | None, seed: int | None, *, keeps_training: bool = False
) -> tuple[AppTrial, RoundReport]:
    """The trial after a round, and the report: the strategy's step, if enough replied.

    `keeps_training`: what clients returned of training is the trial's score.
    """
    work, trial = one.work, one.trial
    applied = int((one.status == Status.OK).sum()) >= minimum
    if applied:
        try:
            arrays, state = aggregated(
                one.captured.build,
                trial.strategy,
                trial.round + 1,
                trial.arrays,
                _replies(one, limits),
                config=one.captured.train_config,
                seed=seed,
            )
            told = [(reply.size, reply.metrics) for reply in one.replies if reply]
            trial = replace(
                trial,
                arrays=arrays,
                strategy=state,
                round=trial.round + 1,
                training=training_metrics(told) if keeps_training else {},
            )
        except StrategyFailed as failure:
            applied = False
            for member in np.flatnonzero(one.status == Status.OK).tolist():
                one.status[member] = Status.FAILED
                one.reasons[member] = Reason(Why.STRATEGY, str(failure))
                one.replies[member] = None
    size = RecordParcel(one.trial.arrays).bytes

    def column(name: str) -> NDArray[np.float64]:
        return np.array([reply.scores[name] if reply else np.nan for reply in one.replies])

    sizes = np.array([reply.size if reply else 0 for reply in one.replies], np.int64)
    up = sum(RecordParcel(reply.arrays).bytes for reply in one.replies if reply)
    report = RoundReport(
        work.trial,
        trial.round,
        applied,
        np.array(work.cohort, np.int64),
        one.status,
        sizes,
        np.array([reply.validation_size if reply else 0 for reply in one.replies], np.int64),
        column("loss_before"),
        column("loss_after"),
        column("accuracy_before"),
        column("accuracy_after"),
        dict(sorted(one.reasons.items())),
        Cost(
            rounds=1,
            client_rounds=len(work.cohort),
            bytes_down=size * len(work.cohort),
            bytes_up=up,
            samples=int(sizes.sum()),
        ),
    )
    return replace(trial, calls=trial.calls + 1), report


def _replies(one: AppRound, limits: Ints | None) -> list[Reply]:
    """The replies as a strategy takes them: metrics that all of them have, no more rows than allowed."""
    came = [(member, reply) for member, reply in enumerate(one.replies) if reply is not None]
    common = set.intersection(*(_metric_names(reply) for _, reply in came)) if came else set()
    found = []
    for member, reply in came:
        most = None if limits is None else min(reply.size, int(limits[member]))
        tables = {"metrics": reply.metrics} if reply.records is None else reply.records["metrics"]
        records: dict[str, Any] = {}
        for record, values in tables.items():
            kept = {name: value for name, value in values.items() if (record, name) in common}
            for rows in ("num-examples", "num_examples"):
                if most is not None and rows in kept:
                    kept[rows] = most
            records[record] = MetricRecord(kept)
        if reply.records is not None:
            records |= {name: ConfigRecord(dict(one)) for name, one in reply.records["configs"].items()}
        name = "arrays" if reply.records is None else reply.records["arrays"]
        found.append(Reply(int(one.work.cohort[member]), reply.arrays, reply.metrics, records, name))
    return found


def _metric_names(reply: AppReply) -> set[tuple[str, str]]:
    tables = {"metrics": reply.metrics} if reply.records is None else reply.records["metrics"]
    return {(record, name) for record, values in tables.items() for name in values}
