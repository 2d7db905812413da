"""Read a run's directory into a view; links are refused, and nothing that it names is imported."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.significance import level_of, p_value
from fedhpo.figures.agreement import Agreement, agreements
from fedhpo.figures.deviation import deviations
from fedhpo.figures.told import Told
from fedhpo.figures.view import RunView
from fedhpo.pages.numbers import finite
from fedhpo.protocol.federation import RoundReport, Scores
from fedhpo.protocol.objective import Objective, paired_gain
from fedhpo.run import Run, open_read
from fedhpo.run.codec import unpack
from fedhpo.run.run import RECORD, RESULT
from fedhpo.search.comparison import effective

#: Clients are taken as drawn from so many that a model will serve.
_MANY = 10**9


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
    for name in (RECORD, RESULT, "study.toml"):
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
        path,
        _data(run),
        dict(told.scored),
        {trial: sorted(dict(curve).items()) for trial, curve in told.cohorts.items()},
        dict(told.replies),
        dict(told.clients),
        dict(told.latest),
        list(told.trained),
        spans=list(told.spans),
    )
    return replace(view, result=run.result() or _when_stopped(run) or _so_far(run, view, told))


def _data(run: Run) -> str:
    """The digest of the run's data: clients of two runs are the same where these are."""
    found = run.record.get("fingerprint")
    data = found.get("data") if isinstance(found, dict) else None
    return str(data.get("digest", "")) if isinstance(data, dict) else ""


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
    leader = _leader(view, trials)
    stops, spent = facts["stops"], facts["spent"]
    searched = spent["rounds"] if facts["search_rounds"] is None else facts["search_rounds"]
    return {
        "status": facts["status"],
        "reason": stops[-1].get("reason", "") if stops else "",
        "method": asked["method"],
        "seed": asked["seed"],
        "objective": asked["objective"],
        "evaluation": asked["evaluation"],
        "best": leader,
        "baseline": None,
        "gain": _gain(view, told, leader, len(trials)),
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


def objective_of(asked: Mapping[str, Any]) -> Objective:
    """The objective as a study or a result tells it."""
    return Objective(
        asked["metric"],
        asked.get("over", "mean"),
        asked.get("tail", 0.1),
        asked.get("weighting", "size"),
        asked.get("direction"),
        asked.get("trim", 0.25),
        pooled=bool(asked.get("pooled")),
    )


def _gain(view: RunView, told: Told, leader: Mapping[str, Any] | None, trials: int) -> dict[str, Any] | None:
    """The leader's gain over the user's own config, once both have a score at the same round.

    As at the end of a run whose clients all chose the winner: paired at clients that scored both, and held
    against a level that is corrected for the number of configs.
    """
    number = 0 if leader is None else int(leader["trial"])
    if not number or 0 in told.paths or number not in told.pairs:
        return None
    round, ours, theirs = told.pairs[number]
    found = difference(objective_of(view.asked["objective"]), ours, theirs)
    rivals = max(1, trials - 1)
    return None if found is None else {**found, "round": round, "rivals": rivals, "level": level_of(rivals)}


def difference(objective: Objective, ours: Scores, theirs: Scores) -> dict[str, Any] | None:
    """How much better one model scores than another: value, standard error, clients and p-value.

    Client by client where the same ones scored both, else from the two scores, whose errors add up.
    """
    shared = np.intersect1d(ours.clients, theirs.clients)
    paired = len(shared) == len(ours.clients) == len(theirs.clients)
    least = min(effective(objective, one) for one in (ours, theirs))
    if paired:
        value, error, clients = paired_gain(objective, ours, theirs)
    else:
        mine, other = (objective.observe(one, 0, _MANY) for one in (ours, theirs))
        value = mine.value - other.value if objective.maximise else other.value - mine.value
        error, clients = (
            math.hypot(mine.standard_error, other.standard_error),
            min(mine.clients, other.clients),
        )
    if not math.isfinite(value):
        return None
    return {
        "value": value,
        "standard_error": error if math.isfinite(error) else None,
        "clients": clients,
        "p_value": p_value(value, error, min(clients, least)),
        "fresh": False,
        "paired": paired,
    }
