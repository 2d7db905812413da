"""What was spent on which trial, and when it trained."""

from __future__ import annotations

from typing import Any

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.marks import colour_of
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import SMALL, Figure, axis, figure, thinned
from fedhpo.pages.html import text

#: Stretches drawn of each trial.
_MOST = 400
#: Trials whose numbers stand on the axis.
_NAMED = 30
#: From so many seconds on a run's clock counts hours, or minutes.
_HOURS, _MINUTES = 7200.0, 180.0


def cost(view: RunView) -> Figure:
    """Rounds of each trial."""
    if not view.trials:
        raise NothingToDrawError("cost needs a trial")
    bars = {
        "type": "bar",
        "x": [trial["trial"] for trial in view.trials],
        "y": [trial["rounds"] for trial in view.trials],
        "marker": {"color": [colour_of(view, trial["trial"]) for trial in view.trials]},
        "hovertemplate": "trial %{x}: %{y} rounds<extra></extra>",
    }
    x = axis("trial", tickmode="auto", nticks=15)
    return figure([bars], x, axis("rounds"), height=280, showlegend=False, bargap=0.25, margin=SMALL)


def timeline(view: RunView) -> Figure:
    """What trained when: a line for each stretch of a trial's rounds.

    On the clients' clock where time is simulated, else on that of the run.
    """
    found: dict[int, list[tuple[float, float, str]]] = {}
    if view.spans:
        for trial, begin, end in view.spans:
            found.setdefault(trial, []).append((begin, end, "a round"))
    else:
        for trial, begin, end, rounds in view.trained:
            words = "a round" if rounds == 1 else f"{rounds} rounds"
            found.setdefault(trial, []).append((begin, end, words))
    if not found:
        raise NothingToDrawError("timeline needs rounds whose times are known; a kept run has them")
    last = max(end for some in found.values() for _, end, _ in some)
    title, unit = _clock(last, bool(view.spans))
    status = {trial["trial"]: trial for trial in view.trials}
    lines = []
    for place, trial in enumerate(sorted(found)):
        spans = thinned(found[trial], _MOST)
        row = status.get(trial, {})
        about = text(f"trial {trial}, {row.get('status', 'training')}")
        lines.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [value for begin, end, _ in spans for value in (begin / unit, end / unit, None)],
                "y": [value for _ in spans for value in (place, place, None)],
                "text": [value for *_, words in spans for value in (words, words, "")],
                "line": {"color": colour_of(view, trial), "width": 4},
                "marker": {"size": 3, "color": colour_of(view, trial)},
                "hovertemplate": f"{about}<br>%{{text}}, %{{x:.3g}}<extra></extra>",
            }
        )
    labels = {"tickvals": list(range(len(found))), "ticktext": [str(trial) for trial in sorted(found)]}
    ticks: dict[str, Any] = labels if len(found) <= _NAMED else {}
    height = 200 + 14 * min(len(found), _NAMED)
    return figure(lines, axis(title), axis("trial", **ticks), height=height, showlegend=False)


def _clock(seconds: float, simulated: bool) -> tuple[str, float]:
    """The title of the axis, and the seconds of one of its units.

    >>> _clock(90.0, False), _clock(90.0, True)
    (('seconds of the run', 1.0), ('simulated hours', 3600.0))
    """
    if simulated:
        return "simulated hours", 3600.0
    if seconds >= _HOURS:
        return "hours of the run", 3600.0
    return ("minutes of the run", 60.0) if seconds >= _MINUTES else ("seconds of the run", 1.0)
