"""What a run's record tells, read once and then only what is new: also of a run that is under way.

Events are read in order, each only once, and nothing but what pages show is kept of them. So a long run can
be watched: a look at it costs what happened since the last one.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from fedhpo.core.run_errors import DamageError
from fedhpo.protocol.failures import REPLIES, Failures
from fedhpo.protocol.federation import Cost, Floats, Ints, RoundReport, Scores, Status
from fedhpo.protocol.objective import BALANCED, Objective
from fedhpo.run.codec import unpack
from fedhpo.run.history import rows_of
from fedhpo.run.record import Event, Record

#: Round and score, in order.
Curve = list[tuple[int, float]]
#: A trial that trained without a break: its number, begin and end in seconds of the run, its rounds then.
Stretch = tuple[int, float, float, int]
#: Two evaluations at the same round: the round, a trial's scores, and those of the user's own config.
Pair = tuple[int, Scores, Scores]


class Told:
    """All that pages show of a record's events. `read` takes in what is new.

    >>> told = Told({"metric": "accuracy", "over": "mean", "weighting": "size"})
    >>> told.events, told.evaluations
    (0, [])
    """

    def __init__(self, objective: Mapping[str, Any]) -> None:
        self._told = objective
        self._of_loss = objective["metric"] in ("loss", BALANCED)
        # The history holds means over clients by size; any other objective is computed from the scores.
        plain = objective["over"] == "mean" and objective["weighting"] == "size"
        self._objective = None if plain else _objective(objective)
        self._clear()

    def _clear(self) -> None:
        self._last: Event | None = None
        self._cost, self._epsilon, self._seconds = Cost(), 0.0, 0.0
        #: The first config of each trial, and what exchanges made of it.
        self.configs: dict[int, Any] = {}
        self.paths: dict[int, list[dict[str, Any]]] = {}
        #: Rounds behind each trial, those that were stopped, and the round that is under way, by trial.
        self.rounds: dict[int, int] = {}
        self.ended: set[int] = set()
        self.failures = Failures()
        #: Replies of clients in rounds, by status.
        self.replies: Counter[str] = Counter()
        #: The rows of the history that are evaluations; the objective at them, where it is no mean by size.
        self.evaluations: list[dict[str, Any]] = []
        self.scored: dict[tuple[Any, int], float | None] = {}
        #: By trial: what the cohort of each round saw of the model before it trained.
        self.cohorts: dict[int, Curve] = {}
        #: By trial: clients and their scores at its last evaluation on validation data.
        self.clients: dict[int, tuple[Ints, Floats]] = {}
        #: By trial: the round of its last evaluation on validation data, and the scores themselves.
        self.latest: dict[int, tuple[int, Scores]] = {}
        #: By trial: its last evaluation at a round at which the user's own config (trial 0) was scored too.
        self.pairs: dict[int, Pair] = {}
        self._own: dict[int, Scores] = {}
        #: What trained when.
        self.trained: list[Stretch] = []
        self._training: dict[int, int] = {}
        #: Of simulated time: trial, begin and end of each round.
        self.spans: list[tuple[int, float, float]] = []
        #: The trials of the last round, and the number, seconds and rounds of the last events, newest last.
        self.lately: list[int] = []
        self.pace: list[tuple[int, float, int]] = []

    @property
    def events(self) -> int:
        """The number of the last event that was read."""
        return 0 if self._last is None else self._last.number

    def read(self, record: Record, seconds: float = math.inf) -> bool:
        """Take in new events for at most so long; returns whether all of them were read.

        Where the record was cut since (its total was raised) or a release was given its result, all of it is
        read again.
        """
        try:
            return self._read(record, seconds)
        except DamageError:
            if self._last is None:
                raise
            self._clear()
            return self._read(record, seconds)

    def _read(self, record: Record, seconds: float) -> bool:
        if record.last < self.events:
            raise DamageError(record.path, "it is shorter than it was")
        end = time.monotonic() + seconds
        for event in record.events(self._last):
            if event.kind.startswith("decide ") and event.result is None:
                return True  # charged, not drawn yet: it will change
            try:
                self._take(event)
            except DamageError:
                raise
            except Exception as error:
                raise DamageError(record.path, f"event {event.number}: {error}") from error
            self._last = Event(event.number, event.kind, b"", None, digest=event.digest)
            if time.monotonic() > end:
                return self.events == record.last
        return True

    def _take(self, event: Event) -> None:
        self._cost += event.cost
        self._epsilon += event.epsilon
        self._seconds += event.seconds
        items: list[Any] = []
        if event.kind in REPLIES and event.result is not None:
            items = unpack(event.result)
            self.failures.take(items, replayed=True)
        if event.kind in ("round", "done"):
            self._take_rounds(event, items)
        elif event.kind in ("evaluate", "fork", "mix", "decide release"):
            self._take_evaluation(event, items)
        elif event.kind == "decide ask" and event.result is not None:
            config = json.loads(event.result)
            if config is not None:
                self.configs[json.loads(event.call)["trial"]] = config
        elif event.kind == "decide exchange" and event.result is not None:
            self._take_exchange(json.loads(event.result))
        elif event.kind == "stop":
            self.ended.add(json.loads(event.call)["trial"])

    def _take_rounds(self, event: Event, items: list[RoundReport]) -> None:
        for report in items:
            self.rounds[report.trial] = report.round
            if report.span is not None:
                self.spans.append((report.trial, *report.span))
            if np.count_nonzero(report.status):
                counts = np.bincount(report.status, minlength=len(Status)).tolist()
                self.replies.update({s.name.lower(): counts[s] for s in Status})
            else:
                self.replies["ok"] += len(report.status)
            seen = _mean(
                report.loss_before if self._of_loss else report.accuracy_before, report.validation_size
            )
            if seen is not None:  # a cohort scores the model it is sent, which has one round less behind it
                self.cohorts.setdefault(report.trial, []).append((report.round - 1, self._metric(seen)))
            self._take_stretch(report.trial, event.seconds)
        self.lately = [report.trial for report in items]
        self.pace = [*self.pace[-49:], (event.number, event.seconds, event.cost.rounds)]

    def _take_stretch(self, trial: int, seconds: float) -> None:
        """One more round of a trial: it goes on with its stretch if it trained in the round before too."""
        begin, end = self._seconds - seconds, self._seconds
        if trial in self.lately and trial in self._training:
            place = self._training[trial]
            _, begin, _, rounds = self.trained[place]
            self.trained[place] = trial, begin, end, rounds + 1
        else:
            self._training[trial] = len(self.trained)
            self.trained.append((trial, begin, end, 1))

    def _take_evaluation(self, event: Event, items: list[Scores]) -> None:
        spent = {**asdict(self._cost), "epsilon": self._epsilon, "seconds": self._seconds}
        for row in rows_of(event, self.rounds):
            self.evaluations.append({"event": event.number, **row, **spent})
        for scores in items:
            if scores.split == "validation":
                self.clients[scores.trial] = scores.clients, self._at_clients(scores)
                self._take_pair(scores)
            if self._objective is not None:
                value = self._objective.observe(scores, 0, 0).value
                self.scored[event.number, scores.trial] = value if math.isfinite(value) else None

    def _take_pair(self, scores: Scores) -> None:
        trial, number = scores.trial, self.rounds.get(scores.trial, 0)
        self.latest[trial] = number, scores
        if trial == 0:
            self._own[number] = scores
            same = [(one, theirs) for one, (at, theirs) in self.latest.items() if at == number and one]
            self.pairs.update({one: (number, theirs, scores) for one, theirs in same})
        elif number in self._own:
            self.pairs[trial] = number, scores, self._own[number]

    def _take_exchange(self, copies: list[dict[str, Any]]) -> None:
        """An exchange made trials copies of others, under other configs."""
        for copy in copies:
            number = copy.pop("trial")
            begun = {"round": 0, "source": None, "config": self.configs.get(number)}
            self.paths.setdefault(number, [begun]).append(copy)

    def _at_clients(self, scores: Scores) -> Floats:
        """The objective's metric at each client."""
        if self._told["metric"] in scores.metrics:
            return scores.metrics[self._told["metric"]]
        values = scores.loss if self._of_loss else scores.accuracy
        return values if self._told["metric"] in ("loss", "accuracy") else 1 - values

    def _metric(self, value: float) -> float:
        return value if self._told["metric"] in ("loss", "accuracy") else 1 - value

    def config(self, trial: int) -> Any:
        """The config that the trial has now."""
        return self.paths[trial][-1]["config"] if trial in self.paths else self.configs[trial]


def _objective(told: Mapping[str, Any]) -> Objective:
    return Objective(
        told["metric"],
        told["over"],
        told.get("tail", 0.1),
        told["weighting"],
        told.get("direction"),
        told.get("trim", 0.25),
    )


def _mean(values: Floats, sizes: Ints) -> float | None:
    """The mean by size of what is known; None without any."""
    known = values == values
    if not known.all():
        values, sizes = values[known], sizes[known]
    total = float(sizes.sum())
    found = float(values @ sizes) / total if total else math.nan
    return found if math.isfinite(found) else None
