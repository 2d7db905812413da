"""One view of a run, from which all figures are drawn: result, history and facts, also while it runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import NothingToDrawError, unknown_name
from fedhpo.figures.agreement import Agreement
from fedhpo.figures.deviation import Deviation
from fedhpo.figures.incumbents import Incumbent, incumbents_of
from fedhpo.figures.told import Curve, Stretch
from fedhpo.pages.phrasing import rounds_of
from fedhpo.protocol.federation import Floats, Ints, Scores
from fedhpo.protocol.metrics import BASE
from fedhpo.protocol.objective import BALANCED
from fedhpo.search.verdict import verdict_of

#: A hyperparameter by its full name, and its table in the study.
Named = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class RunView:
    """All that is shown of a run. `asked` is what was recorded at its start.

    `history` holds rows as `fedhpo.run.history` makes them; those of rounds may be left out where `cohorts`
    and `answered` hold what they tell.
    """

    name: str
    asked: Mapping[str, Any]
    facts: Mapping[str, Any]
    result: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    study_text: str = ""
    #: The run's directory, where it is kept; and the digest of its data, where that is known.
    path: Path | None = None
    data: str = ""
    #: By event and trial, where the objective is another than the mean over clients by size.
    at_events: Mapping[tuple[Any, int], float | None] = field(default_factory=dict, repr=False)
    #: By trial, what the cohorts of its rounds saw; and how many of their members replied, by status.
    cohorts: Mapping[int, Curve] | None = field(default=None, repr=False)
    answered: Mapping[str, int] | None = None
    #: By trial, the clients and their scores at its last evaluation.
    clients: Mapping[int, tuple[Ints, Floats]] = field(default_factory=dict, repr=False)
    #: By trial, the round of its last evaluation and all that clients told then.
    latest: Mapping[int, tuple[int, Scores]] = field(default_factory=dict, repr=False)
    #: What trained when: stretches of rounds on the clock of the run.
    trained: Sequence[Stretch] = field(default=(), repr=False)
    #: How each client's scores go with the others'; empty where no single client's are known.
    agreements: Sequence[Agreement] = field(default=(), repr=False)
    #: How each client's updates differ from the others'; empty where nothing is known of single ones.
    deviations: Sequence[Deviation] = field(default=(), repr=False)
    #: Of simulated time: trial, begin and end of each round; empty where there is no clock.
    spans: Sequence[tuple[int, float, float]] = field(default=(), repr=False)

    @classmethod
    def of_result(cls, result: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> RunView:
        """The view of a result whose record is not there: curves are means over clients by size."""
        best = result["best"] or {}
        found, clients = best.get("by_client"), {}
        if found:
            who, values = np.asarray(found["client"], np.int64), np.asarray(found["value"], np.float64)
            clients = {int(best["trial"]): (who, values)}
        rows = [row for row in history if row["kind"] in ("round", "evaluate")]
        return cls("", {"space": result["space"]}, {}, result, rows, clients=clients)

    @property
    def metric(self) -> str:
        """What is optimised."""
        return str(self.result["objective"]["metric"])

    @property
    def maximise(self) -> bool:
        """Whether more of it is better."""
        return bool(self.result["objective"]["direction"] == "maximize")

    @property
    def winner(self) -> int | None:
        """The number of the best trial; None while none is scored."""
        best = self.result["best"]
        return None if best is None else int(best["trial"])

    @property
    def own(self) -> int | None:
        """The trial of the user's own config; None where an exchange made it a copy of another."""
        trials = self.result["trials"]
        return None if trials and trials[0].get("path") else 0

    @property
    def winner_is_used(self) -> bool:
        """Whether the best trial is no worse than the user's own config, as far as that is known."""
        return verdict_of(self.result).use == "tuned" or self.winner == self.own

    @property
    def trials(self) -> Sequence[Mapping[str, Any]]:
        """What the result says of each trial."""
        found: Sequence[Mapping[str, Any]] = self.result["trials"]
        return found

    @cached_property
    def scored(self) -> list[Mapping[str, Any]]:
        """The trials that have a score."""
        return [one for one in self.trials if one["score"] is not None and math.isfinite(one["score"])]

    def need(self, count: int, what: str) -> None:
        """Refuse a figure that too few trials cannot give."""
        if len(self.scored) < count:
            least = f"{count} trials" if count > 1 else "one trial"
            raise NothingToDrawError(
                f"{what} needs at least {least} with a score, the run has {len(self.scored)}"
            )

    @cached_property
    def tuned(self) -> list[Named]:
        """The hyperparameters that are not fixed, by full name, and their tables."""
        return sorted(
            (f"{scope}.{key}", table)
            for scope, tables in self.asked["space"].items()
            for key, table in tables.items()
            if isinstance(table, Mapping) and "value" not in table
        )

    def named(self, names: Sequence[str] | None = None) -> list[Named]:
        """The hyperparameters to show: those named, or all that were tuned."""
        known = dict(self.tuned)
        for name in names or ():
            if name not in known:
                raise unknown_name("hyperparameter", name, list(known))
        return [(name, known[name]) for name in names] if names else self.tuned

    @property
    def plain(self) -> bool:
        """Whether scores of curves are the objective's; else they are means over clients by size."""
        objective = self.result["objective"]
        by_size = objective.get("over", "mean") == "mean" and objective.get("weighting", "size") == "size"
        return by_size or bool(self.at_events)

    @cached_property
    def evaluated(self) -> dict[int, list[tuple[int, float]]]:
        """Round and validation score of each trial where it was evaluated."""
        return self._curves("evaluate")

    @cached_property
    def in_rounds(self) -> dict[int, list[tuple[int, float]]]:
        """The same as the cohorts of its rounds saw it, where they were asked: means over clients by size."""
        return dict(self._curves("round") if self.cohorts is None else self.cohorts)

    @cached_property
    def replies(self) -> Mapping[str, int]:
        """How many members of cohorts were ok, failed and missing."""
        if self.answered is not None:
            return self.answered
        found: Counter[str] = Counter()
        for row in self.history:
            if row["kind"] == "round":
                found.update({status: row[status] for status in ("ok", "failed", "missing")})
        return found

    def _curves(self, kind: str) -> dict[int, list[tuple[int, float]]]:
        found: dict[int, dict[int, float]] = {}
        for row in self.history:
            point = self._point(row) if row["kind"] == kind else None
            if point is not None:  # of two scores at the same round, the later stays
                found.setdefault(row["trial"], {})[point[0]] = point[1]
        return {trial: sorted(points.items()) for trial, points in found.items()}

    def _point(self, row: Mapping[str, Any]) -> tuple[int, float] | None:
        if row["kind"] == "evaluate":
            if row["split"] != "validation":
                return None
            place = row.get("event"), row["trial"]
            value = self.at_events[place] if place in self.at_events else _metric(self.metric, row, "")
            number = row["round"]
        else:  # a cohort scores the model it is sent, which has one round less behind it
            value, number = _metric(self.metric, row, "_before"), row["round"] - 1
        return None if value is None else (number, value)

    @cached_property
    def incumbents(self) -> list[Incumbent]:
        """The trial to name at each moment of the search, by rounds spent."""
        return self.incumbents_by("rounds")

    def incumbents_by(self, *spent: str) -> list[Incumbent]:
        """The same by the sum of other costs, such as `incumbents_by("bytes_down", "bytes_up")`."""
        points = []
        for row in self.history:
            point = self._point(row) if row["kind"] == "evaluate" else None
            # What comes after the search trains the user's own config, outside the budget.
            if point is not None and row["rounds"] <= self.searched:
                points.append((sum(row[name] for name in spent), int(row["trial"]), *point))
        return incumbents_of(points, self.maximise)

    @property
    def searched(self) -> float:
        """Rounds of the search."""
        cost = self.result.get("cost")
        return math.inf if cost is None else rounds_of(cost)[0]


def _metric(metric: str, row: Mapping[str, Any], when: str) -> float | None:
    """The mean over clients by size that a row of the history holds, in the objective's metric."""
    if metric not in BASE and (when or metric in row or metric != BALANCED):
        found: float | None = None if when else row.get(metric)  # what a cohort sees has no further metrics
        return found
    value: float | None = row[f"{'loss' if metric in ('loss', BALANCED) else 'accuracy'}{when}"]
    if value is None or metric in ("loss", "accuracy"):
        return value
    return 1 - value
