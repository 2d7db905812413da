"""What plots are drawn from: the facts of a result and the rows of its history, nothing of a federation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.space import Space
from fedhpo.space.config import Config

#: One evaluation: rounds spent over all trials, the trial, its round, its score.
Point = tuple[int, int, int, float]


@dataclass(frozen=True, eq=False)
class Story:
    """A result as plots see it."""

    facts: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]

    @property
    def metric(self) -> str:
        """What was optimised."""
        return str(self.facts["objective"]["metric"])

    @property
    def maximise(self) -> bool:
        """Whether more of it is better."""
        return bool(self.facts["objective"]["direction"] == "maximize")

    @property
    def winner(self) -> int | None:
        """The number of the best trial."""
        best = self.facts["best"]
        return None if best is None else int(best["trial"])

    @cached_property
    def space(self) -> Space:
        """What was tuned."""
        return Space.from_dict(self.facts["space"])

    @cached_property
    def points(self) -> list[Point]:
        """Every evaluation on validation data, in order, in the objective's metric."""
        found = []
        for row in self.history:
            if row["kind"] == "evaluate" and row["split"] == "validation":
                value = self._value(row)
                if value is not None and math.isfinite(value):
                    found.append((int(row["rounds"]), int(row["trial"]), int(row["round"]), value))
        return found

    def _value(self, row: Mapping[str, Any]) -> float | None:
        """The mean over clients by size that a row holds."""
        if self.metric in row:
            found: float | None = row[self.metric]
            return found
        base = row["loss"] if self.metric == "balanced_accuracy" else row["accuracy"]
        return None if base is None else 1 - base

    @cached_property
    def scored(self) -> list[tuple[Mapping[str, Any], Config, float]]:
        """The trials that have a score: what the result says of each, its config and its last score."""
        return [
            (trial, Config.from_dict(trial["config"]), float(trial["score"]))
            for trial in self.facts["trials"]
            if trial["score"] is not None and math.isfinite(trial["score"])
        ]

    def need(self, count: int, what: str) -> None:
        """Refuse a plot that too few trials cannot give."""
        if len(self.scored) < count:
            raise InputError(
                f"{what} needs at least {count} trials with a score, the run has {len(self.scored)}"
            )

    def names(self, chosen: Sequence[str] | None) -> list[str]:
        """The hyperparameters to show: those named, or all that were tuned."""
        for name in chosen or ():
            if name not in self.space.names:
                raise unknown_name("hyperparameter", name, self.space.names)
        return list(chosen or self.space.names)
