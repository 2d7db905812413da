"""Which hyperparameters mattered: one measure, from scores after equally many rounds, with its uncertainty.

The measure is in `fedhpo.surrogates.importance`. It takes the scores of the round at which most trials were
scored: a trial that was stopped early is compared with others as old, and how long a trial was trained, which
the method decides by its score, is not taken for an effect of a hyperparameter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.view import RunView
from fedhpo.pages.configs import flat, unit
from fedhpo.pages.figure import SMALL, WINNER, Figure, axis, figure
from fedhpo.pages.html import text
from fedhpo.surrogates import importance as measure
from fedhpo.surrogates.importance import Floats, Importance

#: A bad score further off than so many interquartile ranges counts as one that far off (Tukey, 1977).
_FAR = 3.0


@dataclass(frozen=True)
class Sample:
    """Trials after equally many rounds: their places in the unit cube and their scores."""

    round: int
    names: Sequence[str]
    trials: Sequence[Mapping[str, Any]]
    points: Floats
    scores: Floats


def sample_of(view: RunView) -> Sample:
    """The trials at the round at which most were scored; of two such rounds, the later.

    >>> trials = [{"trial": t, "score": 0.1 * t, "config": {"client": {"lr": 0.1 * t}}} for t in (1, 2, 3)]
    >>> rows = [{"kind": "evaluate", "split": "validation", "trial": t, "round": r, "accuracy": 0.1 * t * r}
    ...         for t, r in ((1, 1), (2, 1), (3, 1), (3, 2))]
    >>> told = {"objective": {"metric": "accuracy", "direction": "maximize"}, "trials": trials, "best": None}
    >>> space = {"client": {"lr": {"low": 0.0, "high": 1.0}}}
    >>> found = sample_of(RunView("", {"space": space}, {}, told, rows))
    >>> found.round, found.scores.round(1).tolist(), found.points[:, 0].tolist()
    (1, [0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    """
    seen = Counter(number for curve in view.evaluated.values() for number, _ in curve)
    if not seen:
        raise NothingToDrawError("importance needs trials that were scored")
    at = max(seen, key=lambda number: (seen[number], number))
    found = []
    for trial in view.trials:
        score = dict(view.evaluated.get(trial["trial"], ())).get(at)
        if score is not None and math.isfinite(score):
            found.append((trial, flat(_config_at(trial, at)), score))
    rows = [[unit(table, config.get(name)) for name, table in view.tuned] for _, config, _ in found]
    points = np.array(rows, dtype=float).reshape(len(found), len(view.tuned))
    scores = np.array([score for *_, score in found], dtype=float)
    return Sample(at, [name for name, _ in view.tuned], [trial for trial, *_ in found], points, scores)


def _config_at(trial: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """The config that a trial had then: in a population it may have become a copy of another since."""
    steps = [step for step in trial.get("path") or () if step["round"] < max(number, 1)]
    found: Mapping[str, Any] = steps[-1]["config"] if steps else trial["config"]
    return found


def importances(view: RunView) -> tuple[Sample, Importance]:
    """What trials after equally many rounds say of each hyperparameter."""
    sample = sample_of(view)
    if len(sample.trials) < measure.LEAST:
        raise NothingToDrawError(
            f"importance needs at least {measure.LEAST} trials with a score after equally many rounds, "
            f"the run has {len(sample.trials)}"
        )
    if not sample.names:
        raise NothingToDrawError("importance needs a hyperparameter that was tuned")
    found = measure.importance(sample.points, tame(sample.scores, view.maximise))
    if found is None:
        raise NothingToDrawError(
            f"importance: the hyperparameters of {len(sample.trials)} trials do not explain their scores at "
            f"round {sample.round}; what differs between trials cannot be told from chance"
        )
    return sample, found


def tame(scores: Floats, maximise: bool) -> Floats:
    """Scores in which one diverged trial does not hide all else.

    >>> tame(np.array([1.0, 2.0, 3.0, 4.0, 1e9]), False).tolist()
    [1.0, 2.0, 3.0, 4.0, 10.0]
    """
    bad = -scores if maximise else scores
    low, high = np.percentile(bad, [25, 75])
    if high > low:
        bad = np.minimum(bad, high + _FAR * (high - low))
    return -bad if maximise else bad


def importance(view: RunView, names: Sequence[str] | None = None) -> Figure:
    """How much each hyperparameter explains by itself of the differences between trials, the most on top.

    Bars are two standard errors to either side.
    """
    sample, found = importances(view)
    chosen = [name for name, _ in view.named(names)]
    order = sorted((sample.names.index(name) for name in chosen), key=lambda i: float(found.values[i]))
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [100 * float(found.values[i]) for i in order],
        "y": [text(sample.names[i]) for i in order],
        "error_x": {
            "type": "data",
            "array": [200 * float(found.errors[i]) for i in order],
            "color": "#66727f",
            "thickness": 1.2,
            "width": 4,
        },
        "marker": {"color": WINNER},
        "hovertemplate": "%{y}: %{x:.0f}% (± %{error_x.array:.0f})<extra></extra>",
    }
    x = axis(f"share of the differences at round {sample.round}, in %", rangemode="tozero")
    height = 96 + 28 * len(order)
    return figure([bars], x, axis("", ticks=""), height=height, showlegend=False, bargap=0.45, margin=SMALL)


def by_importance(view: RunView) -> list[str]:
    """The hyperparameters, those that explain most first."""
    sample, found = importances(view)
    return [sample.names[i] for i in np.argsort(-found.values, kind="stable")]
