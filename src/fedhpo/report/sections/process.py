"""How the run went: method, federation, stops, failures, versions, and the study itself."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

from fedhpo.figures.view import RunView
from fedhpo.pages.html import Section, facts, text
from fedhpo.pages.numbers import number, whole


def process(view: RunView) -> Section:
    """Facts in two columns, then what went wrong, then the study."""
    body = f"<div class=pair>{facts(_run(view))}{facts(_federation(view))}</div>"
    return Section("How it went", body + _failures(view) + _study(view))


def _run(view: RunView) -> list[tuple[str, Any]]:
    result, run = view.result, view.facts
    settings = {key: value for key, value in result["method"].items() if key != "name" and value is not None}
    objective = {key: value for key, value in result["objective"].items() if key != "metric"}
    return [
        ("status", result["status"] + (f" ({result['reason']})" if result["reason"] else "")),
        ("begun", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run["created"]))),
        ("stops", f"{len(run['stops'])}: {_stops(run)}" if run["stops"] else "none"),
        ("method", f"{result['method']['name']} {_pairs(settings)}".strip()),
        ("objective", f"{view.metric} ({', '.join(number(v) for v in objective.values())})"),
        ("seed", result["seed"]),
        *([("trust in clients", result["trust"])] if result.get("trust") else []),
        *((f"{name} version", version) for name, version in run["versions"].items() if name != "machine"),
        ("machine", run["versions"]["machine"]),
    ]


def _stops(run: Any) -> str:
    return "; ".join(str(stop.get("reason", "")) for stop in run["stops"])


def _pairs(values: dict[str, Any]) -> str:
    return f"({', '.join(f'{key}={number(value)}' for key, value in values.items())})" if values else ""


def _federation(view: RunView) -> list[tuple[str, Any]]:
    replies = Counter(view.replies)
    described = dict(view.facts["federation"] or {})
    if not described.get("parameters"):  # written down before a model was built and workers were started
        for name in ("parameters", "stacked", "by_hand", "worker_kind"):
            described.pop(name, None)
    return [
        *(
            (name.replace("_", " "), number(value))
            for name, value in described.items()
            if value not in ("", None)
        ),
        ("replies in rounds", f"{whole(replies['ok'])} of {whole(replies.total())}"),
        ("clients failed", replies["failed"]),
        ("clients missing", replies["missing"]),
    ]


def _failures(view: RunView) -> str:
    failed = [trial for trial in view.result["trials"] if trial["status"] == "failed"]
    lines = "".join(f"<li>Trial {trial['trial']}: {text(trial['reason'])}</li>" for trial in failed)
    return f"<h3>Trials that failed</h3><ul>{lines}</ul>" if lines else ""


def _study(view: RunView) -> str:
    shown = view.study_text or json.dumps(view.asked, indent=2)
    return f"<details><summary>The study</summary><pre>{text(shown)}</pre></details>"
