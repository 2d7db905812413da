"""How the search went: its history, learning curves, and the distribution of scores."""

from __future__ import annotations

from typing import Any

from fedhpo.pages.figure import OTHER, WINNER, axis, figure
from fedhpo.plots.story import Story


def score_axis(story: Story, **more: Any) -> dict[str, Any]:
    """The axis of the score; losses of failing trials are far away, hence its log scale."""
    return axis(f"validation {story.metric}", type="log" if story.metric == "loss" else "linear", **more)


def history(story: Story) -> dict[str, Any]:
    """Every evaluation against the rounds spent over all trials, and the best score so far."""
    spent, trials, rounds, values = zip(*story.points, strict=True) if story.points else ((), (), (), ())
    best: list[float] = []
    for value in values:
        better = max if story.maximise else min
        best.append(better(best[-1], value) if best else value)
    said = [f"trial {t} at its round {r}" for t, r in zip(trials, rounds, strict=True)]
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "evaluations",
        "x": list(spent),
        "y": list(values),
        "text": said,
        "marker": {"color": OTHER, "size": 7},
        "hovertemplate": "%{text}: %{y:.4f}<extra></extra>",
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": list(spent),
        "y": best,
        "line": {"color": WINNER, "width": 2.5, "shape": "hv"},
        "hoverinfo": "skip",
    }
    return figure([points, line], axis("rounds spent over all trials", rangemode="tozero"), score_axis(story))


def curves(story: Story) -> dict[str, Any]:
    """The score of each trial over its own rounds; the winner on top."""
    trials = sorted({trial for _, trial, _, _ in story.points}, key=lambda trial: trial == story.winner)
    traces = []
    for trial in trials:
        own = sorted((r, value) for _, t, r, value in story.points if t == trial)
        winner = trial == story.winner
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"trial {trial}" + (" (winner)" if winner else ""),
                "x": [r for r, _ in own],
                "y": [value for _, value in own],
                "line": {"color": WINNER if winner else OTHER, "width": 2.5 if winner else 1.2},
                "hovertemplate": f"trial {trial}, round %{{x}}: %{{y:.4f}}<extra></extra>",
            }
        )
    return figure(
        traces, axis("round of the trial", rangemode="tozero"), score_axis(story), showlegend=len(trials) < 12
    )


def edf(story: Story) -> dict[str, Any]:
    """The share of trials whose last score is at most so much."""
    story.need(1, "edf")
    values = sorted(score for _, _, score in story.scored)
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": values,
        "y": [(place + 1) / len(values) for place in range(len(values))],
        "line": {"color": WINNER, "width": 2.5, "shape": "hv"},
        "hovertemplate": "%{y:.0%} of trials have at most %{x:.4f}<extra></extra>",
    }
    x = axis(f"last validation {story.metric} of a trial")
    return figure([trace], x, axis("share of trials", range=[0, 1.02], tickformat=".0%"), showlegend=False)
