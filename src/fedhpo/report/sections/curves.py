"""How the search went: trials in order, the leading one against the rounds spent, and learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.pages.figure import OTHER, OWN, SEVERAL, WINNER, axis, drawn, figure, thinned
from fedhpo.pages.html import Section, how_to_read, text
from fedhpo.pages.phrasing import config_in_words
from fedhpo.pages.plots import history
from fedhpo.protocol.objective import scored_as
from fedhpo.report.incumbents import Incumbent, in_words
from fedhpo.report.view import RunView

#: Points of a figure's thin lines, all trials together: more make the page heavy and look the same.
_THIN, _POINTS = 12_000, 20_000
_HISTORY = (
    "Each point is a trial with its last score, in the order they began; the darker, the longer trained."
)
_BUDGET = "The score of the leading trial against the rounds spent over all trials."
_CURVES = "The validation score of every trial by its own rounds; orange is your own config."
_ABOUT_HISTORY = how_to_read(
    "Left: trials that were stopped early stand at the score that they had then. They may have been "
    "better later.",
    "Right: the leading trial is the one to name at that moment: of those trained longest, the best. A "
    "trial that has trained longer takes the lead even from a better score, so the line may fall; below"
    " it is said why.",
)
_ABOUT_CURVES = how_to_read(
    "A score comes from the clients that were asked. Where these are few, a curve is as rough as the "
    "clients differ: look at its trend, and at the trials that stay ahead.",
    "A curve that ends early is a trial that was stopped. One that jumps may have become a copy of another.",
)


def progress(view: RunView) -> Section | None:
    """How the search went: trials in order, and the leading one; None while nothing is scored."""
    if not view.evaluated:
        return None
    first = history(
        view.result["trials"], view.metric, maximise=view.maximise, winner=view.winner, own=view.own
    )
    figures = "" if first is None else drawn(first, "history", _HISTORY)
    notes = []
    if len(view.incumbents) > 1:
        figures += drawn(by_budget([view]), "incumbent", _BUDGET)
        notes = in_words(view.incumbents).splitlines()
    if not figures:
        return None
    note = "".join(f"<p class=note>{text(line)}</p>" for line in notes)
    return Section("History", f"<div class=pair>{figures}</div>{note}{_ABOUT_HISTORY}")


def curves(view: RunView) -> Section | None:
    """The learning curves of all trials; None where no trial was scored twice."""
    points = [curve for some in (view.evaluated, view.in_rounds) for curve in some.values()]
    if not any(len(curve) > 1 for curve in points):
        return None
    notes = []
    if view.in_rounds and view.evaluated:
        notes.append("Points are evaluations; thin lines are what the cohort of each round saw.")
    objective = view.result["objective"]
    if view.result.get("privacy"):
        notes.append("Scores are shown as they were released, with the noise that keeps them private.")
    elif view.in_rounds and (objective["over"] != "mean" or objective["weighting"] != "size"):
        notes.append("Thin lines are means over clients by size, whatever the objective.")
    if (view.result.get("evaluation") or {}).get("average") == "recent":
        notes.append("Trials were compared by means weighted to recent rounds; shown are single scores.")
    note = "".join(f"<p class=note>{text(line)}</p>" for line in notes)
    return Section("Learning curves", drawn(by_round(view), "curves", _CURVES) + note + _ABOUT_CURVES)


def score_axis(view: RunView) -> dict[str, Any]:
    """The axis of the score; losses of failing trials are far away, hence its log scale."""
    kind = scored_as(view.result["objective"])
    return axis(f"{kind} {view.metric}", type="log" if view.metric == "loss" else "linear")


def by_round(view: RunView) -> dict[str, Any]:
    """Trials' evaluations as points, over thin lines for what the cohorts of their rounds saw.

    All trials but the winner and the user's own share one line with gaps: hundreds would be slow to draw.
    """
    trials = sorted({*view.in_rounds, *view.evaluated}, key=lambda t: (t == view.winner, t == view.own, t))
    special = [trial for trial in trials if trial in (view.winner, view.own)]
    groups = [[trial for trial in trials if trial not in special], *([trial] for trial in special)]
    thin = [
        {
            **_line(view, group, view.in_rounds, _THIN // max(len(view.in_rounds), 1)),
            "mode": "lines",
            "opacity": 0.35,
            "line": {"color": _look(view, group[0])[1], "width": 1},
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for group in groups
        if any(trial in view.in_rounds for trial in group)
    ]
    points = [_points(view, group) for group in groups if any(trial in view.evaluated for trial in group)]
    return figure(
        [*thin, *points], axis("round of the trial", rangemode="tozero"), score_axis(view), height=420
    )


def _points(view: RunView, group: list[int]) -> dict[str, Any]:
    _, colour, width = _look(view, group[0])
    configs = {trial["trial"]: trial["config"] for trial in view.result["trials"]}
    about = ""
    if len(group) == 1:
        about = "<br>" + text(config_in_words(configs.get(group[0], {}))).replace(", ", "<br>")
    line = _line(view, group, view.evaluated, max(_POINTS // max(len(view.evaluated), 1), 3))
    return {
        **line,
        "mode": "lines+markers",
        "line": {"color": colour, "width": width},
        "marker": {"color": colour, "size": 4 + 1.5 * width},
        "hovertemplate": f"%{{text}}, round %{{x}}: %{{y:.4f}}{about}<extra></extra>",
    }


def _line(
    view: RunView, group: list[int], curves: Mapping[int, Sequence[tuple[int, float]]], most: int
) -> dict[str, Any]:
    """The curves of some trials as one line, with a gap between each two."""
    name = _look(view, group[0])[0]
    x: list[int | None] = []
    y: list[float | None] = []
    told: list[str] = []
    for trial in group:
        points = thinned(curves.get(trial, ()), max(most, 2))
        if x and points:
            x.append(None)
            y.append(None)
            told.append("")
        x += [number for number, _ in points]
        y += [value for _, value in points]
        told += [f"trial {trial}"] * len(points)
    found = {"type": "scatter", "x": x, "y": y, "name": name, "legendgroup": name}
    return found | ({"text": told} if curves is view.evaluated else {})


def _look(view: RunView, trial: int) -> tuple[str, str, float]:
    if trial == view.winner:
        name = "winner" if view.winner_is_used else "tuned, no improvement"
        return ("winner, your config" if trial == view.own else name), WINNER, 2.5
    if trial == view.own:
        return "your config (trial 0)", OWN, 2.5
    return "other trials", OTHER, 1.2


def by_budget(views: list[RunView]) -> dict[str, Any]:
    """The score of the incumbent against the rounds spent; one line a run. Where it fell, a cross."""
    traces: list[dict[str, Any]] = []
    for i, view in enumerate(views):
        colour = SEVERAL[i % len(SEVERAL)] if len(views) > 1 else WINNER
        name = text(view.name) if len(views) > 1 else "leading trial"
        line = {"type": "scatter", "name": name, "legendgroup": name}
        traces.append(
            {
                **line,
                **_places(view.incumbents),
                "mode": "lines+markers",
                "line": {"shape": "hv", "color": colour, "width": 2},
                "marker": {"size": 6},
                "hovertemplate": "%{x} rounds spent: %{y:.4f}<br>%{text}<extra></extra>",
            }
        )
        fallen = [one for one in view.incumbents if one.fell]
        if fallen:
            traces.append(
                {
                    **line,
                    **_places(fallen),
                    "text": [text(one.fell) for one in fallen],
                    "mode": "markers",
                    "name": f"{name}: worse than before",
                    "marker": {"size": 10, "symbol": "x", "color": colour},
                    "showlegend": len(views) == 1,
                    "hovertemplate": "%{x} rounds spent: %{y:.4f}, worse because<br>%{text}<extra></extra>",
                }
            )
    return figure(
        traces, axis("rounds spent over all trials", rangemode="tozero"), score_axis(views[0]), height=300
    )


def _places(found: Sequence[Incumbent]) -> dict[str, Any]:
    return {
        "x": [one.spent for one in found],
        "y": [one.value for one in found],
        "text": [f"trial {one.trial} at its round {one.round}" for one in found],
    }
