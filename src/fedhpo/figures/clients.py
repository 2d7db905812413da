"""What models are worth at each client, and which clients are unlike the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.agreement import Agreement
from fedhpo.figures.deviation import Deviation
from fedhpo.figures.marks import score_axis
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import OTHER, OWN, WINNER, Figure, axis, figure
from fedhpo.pages.html import text
from fedhpo.protocol.federation import Floats, Ints

#: Fewer clients make no distribution.
_FEW = 3
MODELS = (("global", "the model as it is", OTHER), ("fine_tuned", "fine-tuned at each client", WINNER))


def known_clients(view: RunView, trial: int | None) -> tuple[Ints, Floats] | None:
    """The clients that have a score of the trial at its last evaluation, the worst off first; None if few."""
    if trial is None or trial not in view.clients or view.result.get("privacy"):
        return None
    who, values = view.clients[trial]
    kept = np.isfinite(values)
    who, values = who[kept], values[kept]
    if len(values) < _FEW:
        return None
    order = np.argsort(values if view.maximise else -values, kind="stable")
    return who[order], values[order]


def clients(view: RunView, trials: Sequence[int] | None = None) -> Figure:
    """The last validation score at each client, sorted: of the winner and of the user's own config."""
    chosen = dict.fromkeys((view.winner, view.own) if trials is None else trials)
    found = {trial: known_clients(view, trial) for trial in chosen if trial is not None}
    known = {trial: pair for trial, pair in found.items() if pair is not None}
    if not known:
        raise NothingToDrawError(
            f"clients: fewer than {_FEW} clients' scores are known; private ones, and many, are not kept"
        )
    names = view.result.get("client_names")
    traces = []
    for (trial, (who, values)), colour in zip(known.items(), (WINNER, OWN, OTHER), strict=False):
        order = np.argsort(values, kind="stable")
        called = [str(names[one]) if names else str(one) for one in who[order].tolist()]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(order) <= 60 else "lines",
                "x": [100 * (place + 1) / len(order) for place in range(len(order))],
                "y": values[order].tolist(),
                "name": _called(view, trial) if trials is None else f"trial {trial}",
                "text": [f"client {text(one)}" for one in called],
                "line": {"color": colour, "width": 2},
                "marker": {"size": 5},
                "hovertemplate": "%{text}: %{y:.4f}; %{x:.0f}% of clients have at most that<extra></extra>",
            }
        )
    return figure(traces, axis("share of clients in %"), score_axis(view), height=300)


def _called(view: RunView, trial: int) -> str:
    return "winner" if trial == view.winner else "your config (trial 0)"


def deciles(found: Mapping[str, Any], metric: str) -> Figure:
    """The score that each share of the clients does not reach, before and after fine-tuning."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": list(range(0, 101, 10)),
            "y": found[key][metric]["deciles"],
            "name": name,
            "line": {"color": colour, "width": 2},
            "hovertemplate": "%{x}% of clients: at most %{y:.4f}<extra></extra>",
        }
        for key, name, colour in MODELS
        if found[key][metric]["deciles"] is not None
    ]
    return figure(traces, axis("share of clients in %"), axis(f"test {metric}"), height=280)


def outliers(found: Sequence[Agreement]) -> Figure:
    """Each client by the distance of its scores from the median client's, and their agreement with it."""
    known = [one for one in found if not math.isnan(one.agreement)]
    points = [(one.client, one.distance, one.agreement, one.outlies) for one in known]
    return _scattered(points, "distance from the median client", "agreement with it")


def odd_updates(found: Sequence[Deviation]) -> Figure:
    """Each client by the length of its updates and where they go."""
    points = [(one.client, one.length, one.cosine, one.outlies) for one in found]
    return _scattered(points, "length of its updates, in robust deviations", "cosine with the step")


def _scattered(points: Sequence[tuple[int, float, float, bool]], x: str, y: str) -> Figure:
    traces = []
    for name, odd, colour in (("outlier", True, OWN), ("other clients", False, OTHER)):
        members = [point for point in points if point[3] == odd]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [point[1] for point in members],
                "y": [point[2] for point in members],
                "text": [f"client {point[0]}" for point in members],
                "name": name,
                "marker": {"color": colour, "size": 8},
                "hovertemplate": "%{text}: %{x:.2f}, %{y:.2f}<extra></extra>",
            }
        )
    return figure(traces, axis(x), axis(y), height=280)
