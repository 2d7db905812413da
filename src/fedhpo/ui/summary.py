"""A run in one line of the list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import FedhpoError
from fedhpo.core.run_errors import NotBegunError, OtherVersionError
from fedhpo.figures.reading import refuse_links
from fedhpo.pages.phrasing import rounds_of
from fedhpo.report.page import DAMAGE
from fedhpo.run import Run, open_read
from fedhpo.search.verdict import verdict_of

if TYPE_CHECKING:
    from fedhpo.ui.watched import Watched

#: Seconds for a run under way whose events were not read yet; the next look goes on.
_PATIENCE = 0.15


def summary(name: str, path: Path, watched: Callable[[str], Watched]) -> dict[str, Any]:
    """Status, method, score, gain, cost and age; why not, where the run cannot be read."""
    try:
        refuse_links(path)
        with open_read(path) as run:
            line = _facts(name, run)
            result: Any = run.result() or run.so_far()
        if result is None:
            result = watched(name).look(_PATIENCE).view.result
        return line | _result(result)
    except NotBegunError as error:
        return _unread(name, "not begun", str(error))
    except OtherVersionError as error:
        return _unread(name, "other version", str(error))
    except (FedhpoError, *DAMAGE) as error:
        return _unread(name, "damaged", str(error))


def _unread(name: str, status: str, reason: str) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("method", "metric", "score", "gain", "error", "verdict", "rounds", "total", "bytes")
    )
    return {"name": name, "status": status, "reason": reason[:300], "created": None, "data": "", **nothing}


def _facts(name: str, run: Run) -> dict[str, Any]:
    facts, study = run.facts(), run.study
    created = facts["created"]
    federation = facts["federation"] or {}
    return {
        "name": name,
        "status": facts["status"],
        "reason": facts["stops"][-1]["reason"] if facts["stops"] and facts["status"] != "finished" else "",
        "created": float(created) if isinstance(created, int | float) else None,
        "method": str(study["method"]["name"]),
        "data": str(federation.get("data", "")),
        "total": study["budget"]["total"],
        "rounds": facts["spent"]["rounds"],
        "bytes": facts["spent"]["bytes_down"] + facts["spent"]["bytes_up"],
    }


def _result(result: Any) -> dict[str, Any]:
    best, gain = result["best"] or {}, result["gain"] or {}
    return {
        "metric": result["objective"]["metric"],
        "maximise": result["objective"]["direction"] == "maximize",
        "score": (best.get("validation") or {}).get("value"),
        "gain": gain.get("value"),
        "error": gain.get("standard_error"),
        "verdict": verdict_of(result).kind,
        "rounds": rounds_of(result["cost"])[0],
    }
