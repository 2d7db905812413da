"""A run as the report sees it: result, history and facts, also of a run that has not finished."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedhpo.errors import InputError
from fedhpo.evaluation import truth
from fedhpo.evaluation.truth import Truth
from fedhpo.run import Run, open_read
from fedhpo.run.run import RECORD, RESULT


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

    @cached_property
    def evaluated(self) -> dict[int, list[tuple[int, float]]]:
        """Round and validation score of each trial where it was evaluated: the mean over clients by size."""
        return self._curves("evaluate")

    @cached_property
    def in_rounds(self) -> dict[int, list[tuple[int, float]]]:
        """The same as the cohorts of its rounds saw it, where they were asked."""
        return self._curves("round")

    def _curves(self, kind: str) -> dict[int, list[tuple[int, float]]]:
        found: dict[int, dict[int, float]] = {}
        for row in self.history:
            point = self._point(row) if row["kind"] == kind else None
            if point is not None:  # of two scores at the same round, the later stays
                found.setdefault(row["trial"], {})[point[0]] = point[1]
        return {trial: sorted(points.items()) for trial, points in found.items()}

    def _point(self, row: Mapping[str, Any]) -> tuple[int, float] | None:
        score = "loss" if self.metric == "loss" else "accuracy"
        if row["kind"] == "evaluate":
            value, number = (row[score] if row["split"] == "validation" else None), row["round"]
        else:  # a cohort scores the model it is sent, which has one round less behind it
            value, number = row[f"{score}_before"], row["round"] - 1
        if value is None:
            return None
        return number, 1 - value if self.metric == "error" else value

    @cached_property
    def incumbents(self) -> list[tuple[int, float]]:
        """Rounds spent, and the score of the trial to name then: among those trained longest, the best."""
        latest: dict[int, tuple[int, float]] = {}
        found: list[tuple[int, float]] = []
        sign = -1 if self.maximise else 1
        for row in self.history:
            point = self._point(row) if row["kind"] == "evaluate" else None
            if point is None:
                continue
            latest[row["trial"]] = point
            best = min(latest.values(), key=lambda p: (-p[0], sign * p[1]))
            if found and found[-1][0] == row["rounds"]:
                found.pop()
            found.append((int(row["rounds"]), best[1]))
        return found


def load_view(path: Path) -> RunView:
    """Read a run's directory; links are refused, and nothing that it names is imported."""
    for name in (RECORD, RESULT, "study.toml", truth.FILE):
        if (path / name).is_symlink():
            raise InputError(f"{path / name} is a link: a report reads the run's own files only")
    with open_read(path) as run:
        text = path / "study.toml"
        return RunView(
            path.resolve().name,
            run.study,
            run.facts(),
            run.result() or _so_far(run),
            run.history(),
            text.read_text(encoding="utf-8", errors="replace") if text.is_file() else "",
            Truth.load(path / truth.FILE) if (path / truth.FILE).is_file() else None,
        )


def _so_far(run: Run) -> dict[str, Any]:
    """What result.json would hold, as far as the record of an unfinished run goes."""
    asked, facts = run.study, run.facts()
    view = RunView(
        run.path.name, asked, facts, {"objective": asked["objective"], "best": None}, run.history()
    )
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
    stops = facts["stops"]
    return {
        "status": facts["status"],
        "reason": stops[-1].get("reason", "") if stops else "",
        "method": asked["method"],
        "seed": asked["seed"],
        "objective": asked["objective"],
        "best": _leader(view, trials),
        "baseline": None,
        "gain": None,
        "trials": trials,
        "cost": {**facts["spent"], "budget": {"rounds": asked["budget"]["total"]}},
        "times": {"wall_seconds": facts["active_seconds"]},
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
    validation = {"value": best["score"], "standard_error": None, "clients": None, "round": best["rounds"]}
    return {**{k: best[k] for k in ("trial", "config", "rounds")}, "validation": validation, "test": None}
