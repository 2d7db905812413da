"""A run as the report sees it: result, history and facts, also of a run that has not finished."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.methods.fedex import ground_truth as truth
from fedhpo.methods.fedex.ground_truth import GroundTruth
from fedhpo.pages.numbers import finite
from fedhpo.pages.phrasing import rounds_of
from fedhpo.protocol.federation import Floats, Ints, RoundReport
from fedhpo.protocol.metrics import BASE
from fedhpo.protocol.objective import BALANCED, Objective
from fedhpo.report.agreement import Agreement, agreements
from fedhpo.report.deviation import Deviation, deviations
from fedhpo.report.incumbents import Incumbent, incumbents_of
from fedhpo.report.told import Curve, Told
from fedhpo.run import Run, open_read
from fedhpo.run.codec import unpack
from fedhpo.run.run import RECORD, RESULT
from fedhpo.tuning.verdict import verdict_of


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
    #: What configs reach when trained alone, if that is known.
    truth: GroundTruth | None = None
    #: By event and trial, where the objective is another than the mean over clients by size.
    scored: Mapping[tuple[Any, int], float | None] = field(default_factory=dict, repr=False)
    #: By trial, what the cohorts of its rounds saw; and how many of their members replied, by status.
    cohorts: Mapping[int, Curve] | None = field(default=None, repr=False)
    answered: Mapping[str, int] | None = None
    #: By trial, the clients and their scores at its last evaluation.
    clients: Mapping[int, tuple[Ints, Floats]] = field(default_factory=dict, repr=False)
    #: How each client's scores go with the others'; empty where no single client's are known.
    agreements: Sequence[Agreement] = field(default=(), repr=False)
    #: How each client's updates differ from the others'; empty where nothing is known of single ones.
    deviations: Sequence[Deviation] = field(default=(), repr=False)
    #: Of simulated time: trial, begin and end of each round; empty where there is no clock.
    spans: Sequence[tuple[int, float, float]] = field(default=(), repr=False)

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
            value = self.scored[place] if place in self.scored else _metric(self.metric, row, "")
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
                points.append((sum(int(row[name]) for name in spent), int(row["trial"]), *point))
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
    refuse_links(path)
    with open_read(path) as run:
        told = Told(run.study["objective"])
        told.read(run.record)
        view = view_of(run, told)
        return replace(view, agreements=_agreements(run), deviations=deviations(_reports(run)))


def refuse_links(path: Path) -> None:
    """A page shows what is in the run's own files, and nothing that they point to."""
    for name in (RECORD, RESULT, "study.toml", truth.FILE, truth.OLD_FILE):
        if (path / name).is_symlink():
            raise InputError(f"{path / name} is a link: a report reads the run's own files only")


def view_of(run: Run, told: Told) -> RunView:
    """The run as far as `told` goes."""
    path = run.path
    view = RunView(
        path.resolve().name,
        run.study,
        run.facts(),
        {"objective": run.study["objective"], "best": None},
        list(told.evaluations),
        run.study_text or "",
        GroundTruth.of_run(path),
        dict(told.scored),
        {trial: sorted(dict(curve).items()) for trial, curve in told.cohorts.items()},
        dict(told.replies),
        dict(told.clients),
        spans=list(told.spans),
    )
    return replace(view, result=run.result() or _when_stopped(run) or _so_far(run, view, told))


def _agreements(run: Run) -> list[Agreement]:
    """How each client's scores go with the others', from the evaluations on validation data."""
    if (run.study.get("evaluation") or {}).get("privacy") is not None:
        return []
    asked = run.study["objective"]
    objective = Objective(asked["metric"], direction=asked.get("direction"))
    events = (event for event in run.record.events() if event.kind == "evaluate")
    found = (scores for event in events for scores in unpack(event.result or b""))
    return agreements((scores for scores in found if scores.split == "validation"), objective)


def _reports(run: Run) -> Iterator[RoundReport]:
    """The reports of all rounds, where the rule holds updates; under the mean nothing is known of them."""
    if (run.facts()["federation"] or {}).get("aggregation") == "mean":
        return
    for event in run.record.events():
        if event.kind in ("round", "done"):
            yield from unpack(event.result or b"")


def _when_stopped(run: Run) -> dict[str, Any] | None:
    """What the run came to when it was stopped, if nothing happened since."""
    kept: dict[str, Any] | None = run.record.get("so_far")
    if kept is None or run.status != "stopped" or kept["event"] != run.record.last:
        return None
    found: dict[str, Any] = finite(kept["result"])
    return found


def _so_far(run: Run, view: RunView, told: Told) -> dict[str, Any]:
    """What result.json would hold, as far as the record of an unfinished run goes."""
    asked, facts = run.study, view.facts
    trials = [
        {
            "trial": number,
            "config": told.config(number),
            "path": told.paths.get(number, []),
            "status": "ended" if number in told.ended else "training",
            "rounds": told.rounds.get(number, 0),
            "score": view.evaluated[number][-1][1] if view.evaluated.get(number) else None,
            "standard_error": None,
            "reason": "",
        }
        for number in told.configs
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
        "failures": told.failures.to_list(),
    }


def _leader(view: RunView, trials: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    sign = -1 if view.maximise else 1
    scored = [trial for trial in trials if trial["score"] is not None]
    if not scored:
        return None
    best = min(scored, key=lambda t: (-view.evaluated[t["trial"]][-1][0], sign * t["score"]))
    number = view.evaluated[best["trial"]][-1][0]
    validation = {"value": best["score"], "standard_error": None, "clients": None, "round": number}
    return {**{k: best[k] for k in ("trial", "config", "rounds")}, "validation": validation, "test": None}
