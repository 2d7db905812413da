"""Arguments of tools read, and what a command printed made small: units and uncertainty, no test scores."""

from __future__ import annotations

import math
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.study import Study


def total_rounds(study: Study) -> int:
    return study.file.budget.total or 10 * study.file.budget.rounds


def whole(value: Any, what: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{what} must be a whole number from {least} to {most}")
    return value


def seconds(wait: Any) -> float:
    if (
        isinstance(wait, bool)
        or not isinstance(wait, int | float)
        or not math.isfinite(wait)
        or not 0 <= wait <= 600
    ):
        raise InputError("wait must be 0 to 600 seconds")
    return float(wait)


def used_rounds(answer: dict[str, Any], each: int) -> int | None:
    """The rounds that a job spent, as far as it says them."""
    if "verdicts" in answer:
        trained = sum(one["trainings"] for one in answer["verdicts"])
        tuned = sum((one["control"] or {}).get("rounds", 0) for one in answer["verdicts"])
        return int(trained * each + tuned)
    cost = answer.get("cost")
    return int(cost["all_rounds"]) if isinstance(cost, dict) and "all_rounds" in cost else None


def shortened(answer: dict[str, Any]) -> dict[str, Any]:
    """What a command's object says, without test scores and what is long."""
    if "verdicts" in answer:
        return {
            "campaign": answer["campaign"],
            "verdicts": [verdict_shown(one) for one in answer["verdicts"]],
        }
    best = answer.get("best") or {}
    return {
        "run_status": answer.get("status"),
        "score": (best.get("validation") or {}).get("value"),
        "trials": len(answer.get("trials", ())),
        "next": "call `results`",
    }


def verdict_shown(facts: dict[str, Any]) -> dict[str, Any]:
    """A verdict, small."""
    tail = facts.get("tail")
    return {
        "proposal": facts["proposal"],
        "candidate": facts["candidate"]["name"],
        "base": facts["base"]["name"],
        "verdict": facts["verdict"],
        "difference": {
            "metric": facts["metric"],
            "mean": facts["difference"]["mean"],
            "interval_95": facts["difference"]["interval"],
            "from": facts["difference"]["from"],
        },
        "worst_tenth_of_clients": None if tail is None else tail["mean"],
        "evidence": facts["evidence"],
        "kept_at": facts["threshold"],
        "pairs": facts["pairs"],
        "trainings": facts["trainings"],
        "bytes_ratio": facts["cost"]["bytes"]["ratio"],
        "notes": facts["notes"],
    }
