"""What result.json holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedhpo.core.pareto import fronts
from fedhpo.core.version import VERSION
from fedhpo.methods import Tuner
from fedhpo.methods.fedex.section import policies_of
from fedhpo.methods.sections import sections_of
from fedhpo.protocol.method import Method
from fedhpo.search.comparison import evaluation_facts
from fedhpo.search.private_setup import COPIES, COVERS
from fedhpo.search.search import Search
from fedhpo.search.trial import Trial, path_of
from fedhpo.tuning.conclusion import Conclusion, deployed, named_gain
from fedhpo.tuning.predict import scores_of

_COUNTED = ("rounds", "client_rounds", "bytes_down", "bytes_up", "samples", "evaluations")


def outcome_of(
    search: Search, method: Method | Tuner, found: Conclusion, scoring: str | None, reason: str
) -> dict[str, Any]:
    """All of it but the times; `reason` says why the run was stopped, if it was."""
    best, own = found.best, search.own
    search.winner = best
    objective = search.objective.to_dict()
    if search.objective.metric == "loss" and scoring is not None:
        objective["loss_is"] = f"1 - {scoring}"
    return {
        "fedhpo": VERSION,
        "method": method.to_dict(),
        **search.facts,
        **sections_of(method, search),
        "seed": search.seed,
        "objective": objective,
        **search.criteria.to_dict(search.objective),
        **({"pareto": pareto_set(search)} if search.criteria else {}),
        "evaluation": evaluation_facts(search),
        "privacy": _privacy(search),
        "best": None if best is None else _shown(search, best, found.tests) | scores_of(search, best),
        "baseline": None if own is None else _shown(search, own, found.tests),
        "gain": named_gain(search, found.gain),
        "verdict": found.verdict(search).to_dict(),
        "trials": [_row(search, trial) for trial in search.trials],
        "tried": {scope: len(vectors) for scope, vectors in search.tried.items()},
        "policies": policies_of(search.trials),
        "cost": _cost(search, found.baseline_rounds),
        "failures": search.failures.to_list(),
        "totals": search.totals,
        "personal": found.personal,
        "space": search.space.to_dict(),
        "status": "stopped" if reason else "finished",
        "reason": reason,
    }


def pareto_set(search: Search) -> list[int]:
    """The trials that keep all constraints and that none beats in every objective.

    They come by the first objective, the best first. Trials are compared where they were trained longest: one
    that was eliminated before is not among them.
    """
    scored = [t for t in search.trials if t.score is not None and math.isfinite(t.rank_value)]
    longest = max((t.score.round for t in scored if t.score), default=0)
    rivals = [t for t in scored if t.score and t.score.round == longest and not t.score.violation]
    if not rivals:
        return []
    points = np.array([t.score.point for t in rivals if t.score])
    front = [t for t, place in zip(rivals, fronts(points), strict=True) if place == 0]
    return [t.number for t in sorted(front, key=lambda t: (t.rank_value, t.number))]


def _row(search: Search, trial: Trial) -> dict[str, Any]:
    """One trial of the table of trials."""
    shown = _score(search, trial) or {}
    return {
        "trial": trial.number,
        "config": trial.config.to_dict(),
        "status": trial.status,
        "rounds": trial.round,
        "score": shown.get("value"),
        "standard_error": shown.get("standard_error"),
        "reason": trial.reason,
        "path": path_of(trial),
        **search.criteria.told(search.objective, trial.score),
    }


def _cost(search: Search, baseline_rounds: int) -> dict[str, Any]:
    """What was spent.

    The budget pays for the search; the user's own config, trained to the end to compare, comes on top.
    """
    own, spent, earlier = search.own, search.ledger.spent, search.ledger.earlier
    trained = sum(trial.trained for trial in {*search.trials, *([own] if own else [])})
    total = search.totals[-1] if search.totals else search.total + search.rounds_before
    searched = int(spent["rounds"]) - baseline_rounds
    return {name: int(spent[name] + earlier.get(name, 0)) for name in _COUNTED} | {
        "rounds": searched,
        "baseline_rounds": baseline_rounds,
        "all_rounds": int(spent["rounds"] + earlier.get("rounds", 0)),
        "budget": {"rounds": total},
        "unspent_rounds": total - searched,
        "rounds_before": search.rounds_before,
        **({"simulated_seconds": spent["simulated_seconds"]} if "simulated_seconds" in spent else {}),
        "repeated_rounds": int(spent["rounds"]) - search.rounds_before - trained,
        # Comparison and test scores of smaller totals, which were done anew; part of the sums above.
        "earlier_conclusions": {name: int(earlier.get(name, 0)) for name in _COUNTED} if earlier else None,
    }


def _privacy(search: Search) -> dict[str, Any] | None:
    """How scores were kept private, and what was spent; None where they were not."""
    settings = search.channel.to_dict()
    if settings is None:
        return None
    privacy, plan = search.evaluator.privacy, search.comparison
    if plan is not None:
        compared = plan.to_dict() | {"released": search.compared}
        settings |= {"epsilon": plan.privacy.epsilon, "comparison": compared}
    alone = search.session.kept and privacy is not None and privacy.budget is None
    said = {"copies": COPIES} if alone else {}
    return settings | {"epsilon_spent": search.ledger.epsilon, "covers": COVERS} | said


def _score(search: Search, trial: Trial) -> dict[str, Any] | None:
    """The trial's latest score, as it is shown."""
    if trial.score is None:
        return None
    return replace(trial.score, value=search.evaluator.shown(trial.score.value)).to_dict()


def _shown(search: Search, trial: Trial, tests: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "config": deployed(trial).to_dict(),
        "rounds": trial.round,
        "validation": _score(search, trial),
        "test": tests.get(trial.number),
        **search.criteria.told(search.objective, trial.score),
    }
