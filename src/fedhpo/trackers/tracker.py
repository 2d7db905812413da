"""What all trackers share: which trial is told what, and when. One's own fills in three methods."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from fedhpo.search.events import Event
from fedhpo.search.trial import Trial


class Tracker(ABC):
    """A callback: begins a run for each trial at its first score, logs every score, and ends them at the end.

    Of a run that is resumed, what the record holds is not told again. Where scores are private, only those
    that were released are told.
    """

    def __init__(self) -> None:
        self._told: dict[int, int] = {}

    def __call__(self, event: Event) -> None:
        """Tell what happened."""
        if event.kind == "evaluate" and not event.replayed:
            for trial in event.trials:
                self._score(event, trial)
        if event.kind in ("finish", "stop"):
            self._finish(event)

    def _score(self, event: Event, trial: Trial) -> None:
        if trial.number not in self._told:
            self.begin(trial.number, trial.config.flat())
        self._told[trial.number] = trial.round
        values = values_of(event, trial)
        values["rounds_spent"] = float(event.search.ledger.spent["rounds"])
        self.log(trial.number, trial.round, {k: v for k, v in values.items() if math.isfinite(v)})

    def _finish(self, event: Event) -> None:
        leader = event.search.leader()
        for trial in event.search.trials:
            if trial.number in self._told:
                best = leader is not None and trial.number == leader.number
                self.end(trial.number, {"status": trial.status, "rounds": trial.round, "best": best})
        self._told.clear()

    @abstractmethod
    def begin(self, trial: int, config: Mapping[str, Any]) -> None:
        """A trial has its first score; `config` are its hyperparameters by their full names."""

    @abstractmethod
    def log(self, trial: int, step: int, values: Mapping[str, float]) -> None:
        """Scores of a trial after `step` rounds of it."""

    @abstractmethod
    def end(self, trial: int, facts: Mapping[str, Any]) -> None:
        """The search is over: what became of a trial."""


def values_of(event: Event, trial: Trial) -> dict[str, float]:
    """The objective and the means of all metrics at a trial's last evaluation."""
    search = event.search
    found: dict[str, float] = {}
    if trial.score is not None:
        found[f"validation/{search.objective.metric}"] = search.evaluator.shown(trial.score.value)
    if search.evaluator.privacy is None and trial.evaluations:
        scores = trial.evaluations[-1].scores
        weighting: Literal["size", "uniform"] = "size" if search.objective.weighting == "size" else "uniform"
        for name in ("accuracy", "loss", *scores.metrics):
            found.setdefault(f"validation/{name}", scores.mean(name, weighting))
    return found
