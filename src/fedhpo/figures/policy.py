"""What client policies learned: weights of arms over the rounds (FedEx)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.core.errors import NothingToDrawError
from fedhpo.pages.figure import OTHER, SCALE, WINNER, Figure, axis, figure, thinned
from fedhpo.pages.html import text
from fedhpo.pages.numbers import number
from fedhpo.protocol.federation import Floats

#: Rounds shown: more look the same.
_ROUNDS = 240
#: The policies of a run, an entry for each trial: its number, and `LearningState.history()`.
Policies = Sequence[Mapping[str, Any]]


def of_arms(policies: Policies | None) -> list[Mapping[str, Any]]:
    """The policies that choose among arms; others have none."""
    return [one for one in policies or () if "arms" in one]


def shown_policy(
    policies: Policies | None, winner: int | None, trial: int | None = None
) -> Mapping[str, Any]:
    """The policy of a trial: by default the winner's, or the last trial's."""
    known = {int(one["trial"]): one for one in of_arms(policies)}
    if not known:
        raise NothingToDrawError("policy: no trial has a client policy that learns; FedEx has")
    wanted = trial if trial is not None else winner if winner in known else max(known)
    if wanted not in known:
        raise NothingToDrawError(
            f"trial {wanted} has no policy; those that have: {', '.join(map(str, sorted(known)))}"
        )
    return known[wanted]


def weights_of(shown: Mapping[str, Any], most: int | None = None) -> tuple[list[int], Floats]:
    """Rounds, and the distribution after each; arms that are out have log weights only for the ranking."""
    rounds = shown["rounds"] if most is None else thinned(shown["rounds"], most)
    logs = np.array([one["log_weights"] for one in rounds])
    raised = np.exp(logs - logs.max(axis=1, keepdims=True))
    return [int(one["round"]) for one in rounds], raised / raised.sum(axis=1, keepdims=True)


def policy(policies: Policies | None, winner: int | None, trial: int | None = None) -> Figure:
    """The weight of each arm of a trial's client policy after each round; the winner's by default."""
    shown = shown_policy(policies, winner, trial)
    rounds, weights = weights_of(shown, _ROUNDS)
    arms = [f"arm {arm}: {arm_in_words(values)}" for arm, values in enumerate(shown["arms"])]
    trace = {
        "type": "heatmap",
        "x": rounds,
        "y": list(range(len(arms))),
        "z": weights.T.round(4).tolist(),
        "text": [[text(arm)] * len(rounds) for arm in arms],
        "hovertemplate": "%{text}<br>round %{x}: weight %{z:.4f}<extra></extra>",
        "colorscale": [list(stop) for stop in SCALE],
        "zmin": 0,
        "zmax": float(weights.max()),
        "colorbar": {"thickness": 10, "outlinewidth": 0, "title": {"text": "weight", "font": {"size": 11}}},
    }
    x = axis(f"round of trial {shown['trial']}")
    return figure([trace], x, axis("arm", autorange="reversed"), showlegend=False)


def arm_use(shown: Mapping[str, Any]) -> Figure:
    """How often each arm was drawn by a member of a cohort."""
    counted = Counter(arm for one in shown["rounds"] for arm in one["drawn"])
    arms = list(range(len(shown["arms"])))
    trace = {
        "type": "bar",
        "x": arms,
        "y": [counted[arm] for arm in arms],
        "marker": {"color": [WINNER if arm == shown["best"] else OTHER for arm in arms]},
        "text": [text(arm_in_words(values)) for values in shown["arms"]],
        "textposition": "none",
        "hovertemplate": "arm %{x}: drawn %{y} times<br>%{text}<extra></extra>",
    }
    return figure([trace], axis("arm"), axis("times drawn"), showlegend=False)


def largest_weight(policies: Policies | None, winner: int | None) -> Figure:
    """The largest weight over the rounds, a line for each trial."""
    traces = []
    for one in sorted(of_arms(policies), key=lambda p: p["trial"] == winner):
        leads = one["trial"] == winner
        rounds, weights = weights_of(one, _ROUNDS)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": rounds,
                "y": weights.max(axis=1).round(6).tolist(),
                "line": {"color": WINNER if leads else OTHER, "width": 2.5 if leads else 1},
                "hovertemplate": f"trial {one['trial']}, round %{{x}}: %{{y:.3f}}<extra></extra>",
            }
        )
    return figure(traces, axis("round of the trial"), axis("largest weight", range=[0, 1]), showlegend=False)


def arm_in_words(arm: Mapping[str, Any]) -> str:
    """An arm's hyperparameters on one line."""
    return ", ".join(f"{name} {number(value)}" for name, value in arm.items()) or json.dumps(dict(arm))
