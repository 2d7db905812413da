"""What a run does now: what trains, how fast, how long it will take, what is spent of which budget."""

from __future__ import annotations

from typing import Any

from fedhpo.figures.told import Told
from fedhpo.figures.view import RunView
from fedhpo.run import Run

#: Trials named as training now.
_NAMED = 8


def now(run: Run, told: Told, view: RunView) -> dict[str, Any]:
    """Plain facts for the page's head; `left` is in seconds, None where it is not known."""
    spent = run.record.spent()
    total = float(run.study["budget"]["total"])
    running = run.status == "running"
    seconds = sum(took for _, took, _ in told.pace)
    rounds = sum(count for *_, count in told.pace)
    rate = rounds / seconds if seconds > 0 and rounds else None
    left = max(0.0, total - spent["rounds"]) / rate if rate and running else None
    searched = run.record.get("search_rounds")
    searching = searched is None
    return {
        "status": run.status,
        "rounds": spent["rounds"] if searching else searched,
        "total": total,
        "rate": rate if running else None,
        "left": left if searching else None,
        "phase": ("search" if searching else "comparison with your own config") if running else "",
        "bytes": spent["bytes_down"] + spent["bytes_up"],
        "epsilon": spent["epsilon"] or None,
        "epsilon_budget": _epsilon(run.study),
        "training": [_training(told, view, trial) for trial in told.lately[:_NAMED]] if running else [],
        "training_count": len(told.lately) if running else 0,
        "trials": len(told.configs),
        "events": run.record.last,
        "active_seconds": run.record.active_seconds,
        "resumable": run.status in ("stopped", "failed"),
    }


def _training(told: Told, view: RunView, trial: int) -> dict[str, Any]:
    return {"trial": trial, "round": told.rounds.get(trial, 0), "leads": trial == view.winner}


def _epsilon(study: Any) -> float | None:
    private = (study.get("evaluation") or {}).get("privacy")
    found = private.get("epsilon") if isinstance(private, dict) else None
    return float(found) if isinstance(found, int | float) else None
