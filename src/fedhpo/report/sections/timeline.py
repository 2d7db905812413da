"""What trained when: on the clock of the run, or of its clients where that is simulated."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from fedhpo import figures
from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Section, facts
from fedhpo.pages.numbers import duration
from fedhpo.protocol.reasons import Why

_SIMULATED = (
    "Each line is a round, from the moment at which its first client starts until the last reply is in or "
    "given up. Gaps are times in which a trial waits: for other trials, or for clients."
)
_RUN = "Each line is a stretch in which a trial trained; times of stops are left out."


def timeline(view: RunView) -> Section | None:
    """What trained when; with simulated time, how long rounds took by the clients' clock as well."""
    try:
        found = figures.timeline(view)
    except NothingToDrawError:
        return None
    if not view.spans:
        return Section("Timeline", drawn(found, "timeline", _RUN))
    lengths = [end - begin for _, begin, end in view.spans]
    total = view.result.get("cost", {}).get("simulated_seconds") or max(end for *_, end in view.spans)
    lost = [one for one in view.result.get("failures", ()) if one["during"] == "training"]
    rows = [
        ("simulated wall time", duration(total)),
        ("a round, in the mean", duration(fmean(lengths))),
        ("the longest round", duration(max(lengths))),
        *((f"replies lost, {_short(one)}", one["count"]) for one in lost),
    ]
    return Section("Timeline", f"<div class=pair>{facts(rows)}{drawn(found, 'timeline', _SIMULATED)}</div>")


def _short(failure: dict[str, Any]) -> str:
    """Why replies were lost, in a few words; the results of 0.2.0 name no kinds."""
    kind = failure.get("why")
    return str(failure["reason"]) if kind is None else Why(kind).short
