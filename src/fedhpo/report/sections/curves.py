"""Learning curves of all trials, and the best score against the rounds spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedhpo.pages.figure import OTHER, OWN, SEVERAL, WINNER, axis, drawn, figure
from fedhpo.pages.html import Section, text
from fedhpo.pages.phrasing import config_in_words
from fedhpo.report.incumbents import Incumbent, in_words
from fedhpo.report.view import RunView


def curves(view: RunView) -> Section | None:
    """Two figures; None while nothing is scored."""
    if not view.evaluated and not view.in_rounds:
        return None
    notes = []
    if view.in_rounds:
        notes.append("Points are evaluations; thin lines are what the cohort of each round saw.")
    objective = view.result["objective"]
    if view.result.get("privacy"):
        notes.append("Scores are shown as they were released, with the noise that keeps them private.")
    elif view.in_rounds and (objective["over"] != "mean" or objective["weighting"] != "size"):
        notes.append("Thin lines are means over clients by size, whatever the objective.")
    if (view.result.get("evaluation") or {}).get("average") == "recent":
        notes.append("Trials were compared by means weighted to recent rounds; shown are single scores.")
    notes += in_words(view.incumbents).splitlines() if view.incumbents else []
    figures = drawn(by_round(view), "curves") + drawn(by_budget([view]), "incumbent")
    note = "".join(f"<p class=note>{text(line)}</p>" for line in notes)
    return Section("Learning curves", f"<div class=pair>{figures}</div>{note}")


def score_axis(view: RunView) -> dict[str, Any]:
    """The axis of the score; losses of failing trials are far away, hence its log scale."""
    return axis(f"validation {view.metric}", type="log" if view.metric == "loss" else "linear")


def by_round(view: RunView) -> dict[str, Any]:
    """A trial's evaluations as points, over thin lines for what the cohorts of its rounds saw."""
    configs = {trial["trial"]: trial["config"] for trial in view.result["trials"]}
    trials = sorted({*view.in_rounds, *view.evaluated}, key=lambda t: (t == view.winner, t == view.own, t))
    thin = [
        {
            **_line(view, trial, view.in_rounds[trial]),
            "mode": "lines",
            "opacity": 0.35,
            "line": {"color": _look(view, trial)[1], "width": 1},
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for trial in trials
        if trial in view.in_rounds
    ]
    points, named = [], set()
    for trial in trials:
        name, colour, width = _look(view, trial)
        about = text(config_in_words(configs.get(trial, {}))).replace(", ", "<br>")
        points.append(
            {
                **_line(view, trial, view.evaluated.get(trial, [])),
                "mode": "lines+markers",
                "line": {"color": colour, "width": width},
                "marker": {"color": colour, "size": 4 + 1.5 * width},
                "hovertemplate": f"trial {trial}, round %{{x}}: %{{y:.4f}}<br>{about}<extra></extra>",
                "showlegend": name not in named,
            }
        )
        named.add(name)
    return figure([*thin, *points], axis("round of the trial", rangemode="tozero"), score_axis(view))


def _line(view: RunView, trial: int, points: list[tuple[int, float]]) -> dict[str, Any]:
    name = _look(view, trial)[0]
    x, y = [number for number, _ in points], [value for _, value in points]
    return {"type": "scatter", "x": x, "y": y, "name": name, "legendgroup": name}


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
                    "hovertemplate": "%{x} rounds spent: %{y:.4f}, worse because<br>%{text}<extra></extra>",
                }
            )
    return figure(traces, axis("rounds spent over all trials", rangemode="tozero"), score_axis(views[0]))


def _places(found: Sequence[Incumbent]) -> dict[str, Any]:
    return {
        "x": [one.spent for one in found],
        "y": [one.value for one in found],
        "text": [f"trial {one.trial} at its round {one.round}" for one in found],
    }
