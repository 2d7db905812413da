"""What happened to trials and clients: policies that learn, copies of trials, and scores client by client."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.pages.figure import OTHER, SCALE, WINNER, axis, figure
from fedhpo.pages.phrasing import config_in_words
from fedhpo.plots.search import score_axis
from fedhpo.plots.story import Story


def policy(story: Story, trial: int | None = None) -> dict[str, Any]:
    """The weight of each arm of a trial's client policy after each round (FedEx); the winner's by default."""
    known = {one["trial"]: one for one in story.facts.get("policies") or ()}
    if not known:
        raise InputError("policy: no trial has a client policy that learns; FedEx has")
    number = trial if trial is not None else story.winner if story.winner in known else max(known)
    if number not in known:
        raise InputError(
            f"trial {number} has no policy; those that have: {', '.join(map(str, sorted(known)))}"
        )
    shown = known[number]
    logs = np.array([one["log_weights"] for one in shown["rounds"]])
    raised = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = raised / raised.sum(axis=1, keepdims=True)
    trace = {
        "type": "heatmap",
        "x": [one["round"] for one in shown["rounds"]],
        "y": [f"arm {arm}" for arm in range(len(shown["arms"]))],
        "z": weights.T.round(6).tolist(),
        "text": [[config_in_words({"client": arm})] * len(weights) for arm in shown["arms"]],
        "hovertemplate": "%{y}: %{text}<br>round %{x}: weight %{z:.4f}<extra></extra>",
        "colorscale": [list(stop) for stop in SCALE],
        "zmin": 0,
        "colorbar": {"thickness": 10},
    }
    x = axis(f"round of trial {number}")
    return figure([trace], x, axis("", autorange="reversed"), showlegend=False)


def lineage(story: Story) -> dict[str, Any]:
    """Which trial became a copy of which, and when (FedPop): an arrow for each copy."""
    trials = story.facts["trials"]
    copies = [(one["trial"], change) for one in trials for change in one["path"][1:]]
    if not copies:
        raise InputError("lineage: no trial became a copy of another; in a population (FedPop) they do")
    lines = {
        "type": "scatter",
        "mode": "lines",
        "x": [x for one in trials for x in (0, one["rounds"], None)],
        "y": [y for one in trials for y in (one["trial"], one["trial"], None)],
        "line": {"color": OTHER, "width": 1},
        "hoverinfo": "skip",
    }
    arrows = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [x for _, change in copies for x in (change["round"], change["round"], None)],
        "y": [y for trial, change in copies for y in (change["source"], trial, None)],
        "marker": {"symbol": "arrow", "angleref": "previous", "size": 9},
        "line": {"color": WINNER, "width": 1.5},
        "text": [
            said
            for trial, change in copies
            for said in (f"trial {trial} copies trial {change['source']}",) * 2 + ("",)
        ],
        "hovertemplate": "round %{x}: %{text}<extra></extra>",
    }
    y = axis("trial", tickmode="linear", dtick=max(1, len(trials) // 20))
    return figure([lines, arrows], axis("round of the trial"), y, showlegend=False)


def clients(story: Story) -> dict[str, Any]:
    """The best trial's last validation score at each client, the worst off first."""
    found = (story.facts["best"] or {}).get("by_client")
    if not found:
        raise InputError(
            "clients: the result holds no scores by client; private ones, and many, are not kept"
        )
    names = story.facts.get("client_names")
    rows = sorted(
        zip(found["value"], found["client"], found["size"], strict=True), reverse=not story.maximise
    )
    trace = {
        "type": "bar",
        "x": [str(client) if names is None else names[client] for _, client, _ in rows],
        "y": [value for value, _, _ in rows],
        "text": [f"{size} rows" for _, _, size in rows],
        "textposition": "none",
        "marker": {"color": WINNER},
        "hovertemplate": "client %{x}: %{y:.4f}, %{text}<extra></extra>",
    }
    x = axis("client, the worst off first", type="category", showticklabels=len(rows) <= 40)
    return figure([trace], x, score_axis(story, rangemode="tozero"), showlegend=False)
