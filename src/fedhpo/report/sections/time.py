"""When rounds took place, by the clock of a simulation with a fleet."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from fedhpo.pages.figure import OTHER, OWN, WINNER, axis, drawn, figure, thinned
from fedhpo.pages.html import Section, facts
from fedhpo.pages.numbers import duration
from fedhpo.protocol.reasons import Why
from fedhpo.report.view import RunView

#: Rounds drawn of each trial.
_MOST = 400
_NOTE = (
    "Each line is a round, from the moment at which its first client starts until the last reply is in or "
    "given up. Gaps are times in which a trial waits: for other trials, or for clients."
)


def time(view: RunView) -> Section | None:
    """How long the study took by its clients' clock, and the rounds of each trial on it."""
    if not view.spans:
        return None
    lengths = [end - begin for _, begin, end in view.spans]
    total = view.result.get("cost", {}).get("simulated_seconds") or max(end for *_, end in view.spans)
    lost = [one for one in view.result.get("failures", ()) if one["during"] == "training"]
    rows = [
        ("simulated wall time", duration(total)),
        ("a round, in the mean", duration(fmean(lengths))),
        ("the longest round", duration(max(lengths))),
        *((f"replies lost, {_short(one)}", one["count"]) for one in lost),
    ]
    return Section("Time", f"<div class=pair>{facts(rows)}{drawn(by_hour(view), 'time', _NOTE)}</div>")


def _short(failure: dict[str, Any]) -> str:
    """Why replies were lost, in a few words; the results of 0.2.0 name no kinds."""
    kind = failure.get("why")
    return str(failure["reason"]) if kind is None else Why(kind).short


def by_hour(view: RunView) -> dict[str, Any]:
    """The rounds of each trial as lines on the hours of the simulation."""
    by_trial: dict[int, list[tuple[float, float]]] = {}
    for trial, begin, end in view.spans:
        by_trial.setdefault(trial, []).append((begin / 3600, end / 3600))
    lines = []
    for place, trial in enumerate(sorted(by_trial)):
        spans = thinned(by_trial[trial], _MOST)
        colour = WINNER if trial == view.winner else OWN if trial == view.own else OTHER
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [moment for span in spans for moment in (*span, math.nan)],
                "y": [place + shift for i in range(len(spans)) for shift in (0.2 * (i % 2),) * 3],
                "line": {"color": colour, "width": 2},
                "hovertemplate": f"trial {trial}: %{{x:.2f}} h<extra></extra>",
            }
        )
    labels = {"tickvals": list(range(len(by_trial))), "ticktext": [str(trial) for trial in sorted(by_trial)]}
    ticks = labels if len(by_trial) <= 30 else {}
    height = 200 + 14 * min(len(by_trial), 30)
    return figure(lines, axis("simulated hours"), axis("trial", **ticks), height=height, showlegend=False)
