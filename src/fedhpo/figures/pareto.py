"""Trials in the plane of two objectives: which of them none beats in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import NothingToDrawError, unknown_name
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import OTHER, OWN, WINNER, Figure, axis, figure


def pareto(view: RunView, first: str | None = None, second: str | None = None) -> Figure:
    """The plane of two objectives, the first two by default: the Pareto set, and all other trials."""
    facts = view.result
    objectives = {one["name"]: one for one in facts.get("objectives", ())}
    names = list(objectives)
    if len(names) < 2:
        raise NothingToDrawError(
            "pareto needs several objectives: fedhpo.tune(objectives=['accuracy', 'bytes_up'])"
        )
    for name in (first, second):
        if name is not None and name not in names:
            raise unknown_name("objective", name, names)
    up = first or names[0]
    across = second or next(name for name in names if name != up)
    chosen = set(facts.get("pareto", ()))
    rows = [row for row in facts["trials"] if _known(row, across, up)]
    front = sorted((r for r in rows if r["trial"] in chosen), key=lambda r: r["objectives"][across])
    kept = [r for r in rows if r["trial"] not in chosen and not r.get("violation")]
    broken = [r for r in rows if r.get("violation")]
    traces = [
        _trace(kept, across, up, "other trials", {"mode": "markers", "marker": {"color": OTHER, "size": 7}}),
        _trace(
            broken,
            across,
            up,
            "breaks a constraint",
            {"mode": "markers", "marker": {"color": OWN, "size": 7, "symbol": "x"}},
        ),
        _trace(
            front,
            across,
            up,
            "Pareto set",
            {
                "mode": "lines+markers",
                "marker": {"color": WINNER, "size": 9},
                "line": {"color": WINNER, "width": 1.5, "dash": "dot"},
            },
        ),
    ]
    x, y = (axis(_title(objectives[name]), **_scale(rows, name)) for name in (across, up))
    return figure([trace for trace in traces if trace["x"]], x, y)


def _known(row: Mapping[str, Any], *names: str) -> bool:
    return all((row.get("objectives") or {}).get(name) is not None for name in names)


def _trace(
    rows: Sequence[Mapping[str, Any]], across: str, up: str, name: str, style: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": name,
        "x": [row["objectives"][across] for row in rows],
        "y": [row["objectives"][up] for row in rows],
        "text": [f"trial {row['trial']}, {row['rounds']} rounds" for row in rows],
        "hovertemplate": f"%{{text}}: {up} %{{y:.4g}}, {across} %{{x:.4g}}<extra></extra>",
        **style,
    }


def _title(objective: Mapping[str, Any]) -> str:
    better = "more" if objective["direction"] == "maximize" else "less"
    return f"{objective['name']} ({better} is better)"


def _scale(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """A log scale where values are far apart."""
    values = [row["objectives"][name] for row in rows]
    far = bool(values) and min(values) > 0 and max(values) > 20 * min(values)
    return {"type": "log" if far else "linear"}
