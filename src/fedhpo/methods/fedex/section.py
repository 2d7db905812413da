"""What a client policy learned: its distribution over the rounds, and how often each arm was used."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.methods.fedex.ranking import compare, over_rounds
from fedhpo.pages.figure import OTHER, SCALE, SEVERAL, WINNER, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import number, score

if TYPE_CHECKING:
    from fedhpo.report.view import RunView

_NAMES = {"kendall": "Kendall tau", "spearman": "Spearman", "average_precision": "AP_4@10"}


def policy(view: RunView) -> Section | None:
    """Of the winner (or the last trial): heat map, use of the arms, largest weight, and the ranking."""
    shown = _shown(view)
    if shown is None:
        return None
    figures = [drawn(weights_over_rounds(shown), "policy"), drawn(arm_use(shown), "arm-use")]
    figures.append(drawn(largest_weight(view), "largest-weight"))
    truth = None if view.truth is None else view.truth.of(shown["arms"])
    if truth is not None:
        figures.append(drawn(ranking_over_rounds(shown, truth), "ranking"))
    deployed = _in_words(shown["arms"][shown["best"]])
    note = f"Trial {shown['trial']}; arm 0 is its own config. Most weight: arm {shown['best']} ({deployed})."
    if "tried" in shown:
        note += f" {shown['tried']} of {len(shown['arms'])} arms were ever given to a client."
    if shown["eliminated"]:
        note += f" Eliminated: {', '.join(f'arm {arm}' for arm in sorted(shown['eliminated']))}."
    return Section("Client policy", f"<div class=pair>{''.join(figures)}</div><p class=note>{text(note)}</p>")


def ranking(view: RunView) -> Section | None:
    """How well the trials' scores rank their configs, where the ground truth is known."""
    if view.truth is None or _shown(view) is not None:
        return None
    scored = [trial for trial in view.result["trials"] if trial["score"] is not None]
    truth = view.truth.of([trial["config"].get("client", {}) for trial in scored])
    if truth is None or len(scored) < 2:
        return None
    # What was trained longer was preferred, whatever the scores of those dropped before.
    sign = 1 if view.maximise else -1
    order = sorted(scored, key=lambda trial: (trial["rounds"], sign * trial["score"]))
    places = {trial["trial"]: place for place, trial in enumerate(order)}
    found = compare([places[trial["trial"]] for trial in scored], truth).to_dict()
    columns = [*_NAMES.values(), "regret"]
    row = [Cell(score(found[name])) for name in (*_NAMES, "regret")]
    note = f"<p class=note>{len(scored)} trials, against training each of their configs alone.</p>"
    return Section("Ranking of configs", table(columns, [row], numeric=columns) + note)


def _shown(view: RunView) -> Mapping[str, Any] | None:
    policies = _of_arms(view)
    of_winner = [one for one in policies if one["trial"] == view.winner]
    found: list[Mapping[str, Any]] = of_winner or policies[-1:]
    return found[0] if found else None


def _of_arms(view: RunView) -> list[Mapping[str, Any]]:
    """What FedEx learned in each trial; other policies have no arms."""
    return [one for one in view.result.get("policies") or [] if "arms" in one]


def weights_over_rounds(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The weight of each arm after each round."""
    weights = _weights(shown)
    arms = [f"arm {arm}: {_in_words(values)}" for arm, values in enumerate(shown["arms"])]
    trace = {
        "type": "heatmap",
        "x": [one["round"] for one in shown["rounds"]],
        "y": list(range(len(arms))),
        "z": weights.T.round(6).tolist(),
        "text": [[text(arm)] * len(weights) for arm in arms],
        "hovertemplate": "%{text}<br>round %{x}: weight %{z:.4f}<extra></extra>",
        "colorscale": [list(stop) for stop in SCALE],
        "zmin": 0,
        "zmax": float(weights.max()),
        "colorbar": {"thickness": 10, "outlinewidth": 0},
    }
    return figure([trace], axis("round of the trial"), axis("arm", autorange="reversed"), showlegend=False)


def arm_use(shown: Mapping[str, Any]) -> dict[str, Any]:
    """How often each arm was drawn by a member of a cohort."""
    drawn_arms = Counter(arm for one in shown["rounds"] for arm in one["drawn"])
    arms = list(range(len(shown["arms"])))
    trace = {
        "type": "bar",
        "x": arms,
        "y": [drawn_arms[arm] for arm in arms],
        "marker": {"color": [WINNER if arm == shown["best"] else OTHER for arm in arms]},
        "text": [text(_in_words(values)) for values in shown["arms"]],
        "textposition": "none",
        "hovertemplate": "arm %{x}: drawn %{y} times<br>%{text}<extra></extra>",
    }
    return figure([trace], axis("arm"), axis("times drawn"), showlegend=False)


def largest_weight(view: RunView) -> dict[str, Any]:
    """The largest weight over the rounds, a line for each trial."""
    traces = []
    for one in sorted(_of_arms(view), key=lambda p: p["trial"] == view.winner):
        winner = one["trial"] == view.winner
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [past["round"] for past in one["rounds"]],
                "y": _weights(one).max(axis=1).tolist(),
                "line": {"color": WINNER if winner else OTHER, "width": 2.5 if winner else 1},
                "hovertemplate": f"trial {one['trial']}, round %{{x}}: %{{y:.3f}}<extra></extra>",
            }
        )
    return figure(traces, axis("round of the trial"), axis("largest weight", range=[0, 1]), showlegend=False)


def ranking_over_rounds(shown: Mapping[str, Any], truth: list[float]) -> dict[str, Any]:
    """The three metrics against training each arm alone."""
    found = over_rounds([one["log_weights"] for one in shown["rounds"]], truth)
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [one["round"] for one in shown["rounds"]],
            "y": [None if np.isnan(value) else value for value in found[name]],
            "name": shown_name,
            "line": {"color": SEVERAL[i], "width": 2},
        }
        for i, (name, shown_name) in enumerate(_NAMES.items())
    ]
    return figure(traces, axis("round of the trial"), axis("against training alone", range=[-1, 1]))


def _weights(shown: Mapping[str, Any]) -> Any:
    """The distribution after each round; arms that are out have log weights only for the ranking."""
    logs = np.array([one["log_weights"] for one in shown["rounds"]])
    raised = np.exp(logs - logs.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _in_words(arm: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in arm.items()) or json.dumps(dict(arm))
