"""How well a run ranked its configs, where it is known what each reaches when trained alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.figures.policy import of_arms, shown_policy
from fedhpo.figures.view import RunView
from fedhpo.methods.fedex.ground_truth import GroundTruth
from fedhpo.methods.fedex.ranking import compare, over_rounds
from fedhpo.pages.figure import SEVERAL, Figure, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table
from fedhpo.pages.numbers import score

_NAMES = {"kendall": "Kendall tau", "spearman": "Spearman", "average_precision": "AP_4@10"}


def ranking(view: RunView) -> Section | None:
    """The ranking of arms over the rounds, or of trials by their scores; None without a ground truth."""
    truth = None if view.path is None else GroundTruth.of_run(view.path)
    if truth is None:
        return None
    policies = view.result.get("policies")
    if of_arms(policies):
        shown = shown_policy(policies, view.winner)
        of_shown = truth.of(shown["arms"])
        if of_shown is None:
            return None
        note = f"<p class=note>The arms of trial {shown['trial']}, against training each alone.</p>"
        return Section("Ranking of arms", drawn(ranking_over_rounds(shown, of_shown), "ranking") + note)
    return _of_trials(view, truth)


def _of_trials(view: RunView, known: GroundTruth) -> Section | None:
    scored = [trial for trial in view.trials if trial["score"] is not None]
    truth = known.of([trial["config"].get("client", {}) for trial in scored])
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


def ranking_over_rounds(shown: Mapping[str, Any], truth: Sequence[float]) -> Figure:
    """The three metrics against training each arm alone."""
    found = over_rounds([one["log_weights"] for one in shown["rounds"]], list(truth))
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
