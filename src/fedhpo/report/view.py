"""A run as the report sees it: result, history and facts, also of a run that has not finished."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.methods.fedex import ground_truth as truth
from fedhpo.methods.fedex.ground_truth import Truth
from fedhpo.pages.numbers import finite
from fedhpo.pages.phrasing import rounds_of
from fedhpo.protocol.metrics import BASE
from fedhpo.protocol.objective import BALANCED, Objective
from fedhpo.report.incumbents import Incumbent, incumbents_of
from fedhpo.run import Run, open_read
from fedhpo.run.codec import unpack
from fedhpo.run.failures import recorded_failures
from fedhpo.run.run import RECORD, RESULT
from fedhpo.tuning.verdict import verdict_of


@dataclass(frozen=True)
class RunView:
    """All that is shown of a run. `asked` is what was recorded at its start."""

    name: str
    asked: Mapping[str, Any]
    facts: Mapping[str, Any]
    result: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    study_text: str = ""
    #: What configs reach when trained alone, if that is known.
    truth: Truth | None = None
    #: By event and trial, where the objective is another than the mean over clients by size.
    scored: Mapping[tuple[Any, int], float | None] = field(default_factory=dict, repr=False)

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

    @cached_property
    def evaluated(self) -> dict[int, list[tuple[int, float]]]:
        """Round and validation score of each trial where it was evaluated."""
        return self._curves("evaluate")

    @cached_property
    def in_rounds(self) -> dict[int, list[tuple[int, float]]]:
        """The same as the cohorts of its rounds saw it, where they were asked: means over clients by size."""
        return self._curves("round")

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
            value = self.scored[place] if place in self.scored else _metric(self.metric, row, "")
            number = row["round"]
        else:  # a cohort scores the model it is sent, which has one round less behind it
            value, number = _metric(self.metric, row, "_before"), row["round"] - 1
        return None if value is None else (number, value)

    @cached_property
    def incumbents(self) -> list[Incumbent]:
        """The trial to name at each moment of the search."""
        points = []
        for row in self.history:
            point = self._point(row) if row["kind"] == "evaluate" else None
            # What comes after the search trains the user's own config, outside the budget.
            if point is not None and row["rounds"] <= self.searched:
                points.append((int(row["rounds"]), int(row["trial"]), *point))
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


def load_view(path: Path) -> RunView:
    """Read a run's directory; links are refused, and nothing that it names is imported."""
    for name in (RECORD, RESULT, "study.toml", truth.FILE):
        if (path / name).is_symlink():
            raise InputError(f"{path / name} is a link: a report reads the run's own files only")
    with open_read(path) as run:
        view = RunView(
            path.resolve().name,
            run.study,
            run.facts(),
            {"objective": run.study["objective"], "best": None},
            run.history(),
            run.study_text or "",
            Truth.load(path / truth.FILE) if (path / truth.FILE).is_file() else None,
            _scored(run),
        )
        return replace(view, result=run.result() or _when_stopped(run) or _so_far(run, view))


def _scored(run: Run) -> dict[tuple[Any, int], float | None]:
    """The objective at each evaluation, where the history's means are another thing."""
    told = run.study["objective"]
    if told["over"] == "mean" and told["weighting"] == "size":
        return {}
    objective = Objective(told["metric"], told["over"], told.get("tail", 0.1), told["weighting"])
    found: dict[tuple[Any, int], float | None] = {}
    for event in run.record.events():
        if event.kind == "evaluate":
            for scores in unpack(event.result or b""):
                value = objective.observe(scores, 0, 0).value
                found[event.number, scores.trial] = value if math.isfinite(value) else None
    return found


def _when_stopped(run: Run) -> dict[str, Any] | None:
    """What the run came to when it was stopped, if nothing happened since."""
    kept: dict[str, Any] | None = run.record.get("so_far")
    if kept is None or run.status != "stopped" or kept["event"] != run.record.last:
        return None
    found: dict[str, Any] = finite(kept["result"])
    return found


def _so_far(run: Run, view: RunView) -> dict[str, Any]:
    """What result.json would hold, as far as the record of an unfinished run goes."""
    asked, facts = run.study, view.facts
    configs = {
        json.loads(event.call)["trial"]: json.loads(event.result)
        for event in run.record.events()
        if event.kind == "decide ask" and event.result is not None
    }
    paths = _paths(run, configs)
    trials = [
        {
            "trial": number,
            "config": paths[number][-1]["config"] if number in paths else config,
            "path": paths.get(number, []),
            "status": "training",
            "rounds": max((r["round"] for r in view.history if r["trial"] == number), default=0),
            "score": view.evaluated[number][-1][1] if view.evaluated.get(number) else None,
            "standard_error": None,
            "reason": "",
        }
        for number, config in configs.items()
        if config is not None
    ]
    stops, spent = facts["stops"], facts["spent"]
    searched = spent["rounds"] if facts["search_rounds"] is None else facts["search_rounds"]
    return {
        "status": facts["status"],
        "reason": stops[-1].get("reason", "") if stops else "",
        "method": asked["method"],
        "seed": asked["seed"],
        "objective": asked["objective"],
        "evaluation": asked["evaluation"],
        "best": _leader(view, trials),
        "baseline": None,
        "gain": None,
        "trials": trials,
        "cost": {
            **spent,
            "rounds": searched,
            "baseline_rounds": spent["rounds"] - searched,
            "all_rounds": spent["rounds"],
            "budget": {"rounds": asked["budget"]["total"]},
        },
        "times": {"wall_seconds": facts["active_seconds"]},
        "failures": recorded_failures(run.record),
    }


def _paths(run: Run, configs: Mapping[int, Any]) -> dict[int, list[dict[str, Any]]]:
    """The configs of each trial that an exchange made a copy of another, from the first."""
    paths: dict[int, list[dict[str, Any]]] = {}
    for event in run.record.events():
        if event.kind == "decide exchange" and event.result is not None:
            for copy in json.loads(event.result):
                number = copy.pop("trial")
                begun = {"round": 0, "source": None, "config": configs.get(number)}
                paths.setdefault(number, [begun]).append(copy)
    return paths


def _leader(view: RunView, trials: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    sign = -1 if view.maximise else 1
    scored = [trial for trial in trials if trial["score"] is not None]
    if not scored:
        return None
    best = min(scored, key=lambda t: (-view.evaluated[t["trial"]][-1][0], sign * t["score"]))
    number = view.evaluated[best["trial"]][-1][0]
    validation = {"value": best["score"], "standard_error": None, "clients": None, "round": number}
    return {**{k: best[k] for k in ("trial", "config", "rounds")}, "validation": validation, "test": None}
