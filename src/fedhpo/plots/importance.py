"""How much each hyperparameter matters for the score, by a random forest over the trials.

The forest learns the score from a trial's place in the unit cube and from the rounds it was trained, as
trials that were stopped early score worse whatever their config. A hyperparameter's importance is how much
worse the forest tells the score when its values are shuffled among the trials (Breiman, 2001); they sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.streams import derive
from fedhpo.pages.figure import WINNER, axis, figure
from fedhpo.plots.story import Story
from fedhpo.surrogates.cube import Cube

#: Trials below which a forest says nothing.
LEAST = 4
#: How often each hyperparameter's values are shuffled.
_SHUFFLES = 30


def forest_of(story: Story) -> tuple[Any, NDArray[np.float64]]:
    """The forest, and the points it was fitted on: the unit cube, then the share of rounds."""
    from sklearn.ensemble import RandomForestRegressor

    story.need(LEAST, "importance")
    cube = Cube(story.space).points(config for _, config, _ in story.scored)
    rounds = np.array([trial["rounds"] for trial, _, _ in story.scored], float)
    points = np.column_stack([cube, rounds / max(rounds.max(), 1)])
    scores = np.array([score for _, _, score in story.scored])
    forest = RandomForestRegressor(100, random_state=derive(0, "importance") % 2**32)
    return forest.fit(points, scores), points


def importances(story: Story, names: Sequence[str] | None = None) -> dict[str, float]:
    """The importance of each tuned hyperparameter, the greatest first."""
    from sklearn.inspection import permutation_importance

    forest, points = forest_of(story)
    scores = np.array([score for _, _, score in story.scored])
    state = derive(0, "shuffles") % 2**32
    found = permutation_importance(forest, points, scores, n_repeats=_SHUFFLES, random_state=state)
    known = dict(zip(story.space.names, np.maximum(found.importances_mean[:-1], 0.0), strict=True))
    chosen = {name: float(known[name]) for name in story.names(names)}
    total = sum(chosen.values()) or 1.0
    return {name: value / total for name, value in sorted(chosen.items(), key=lambda item: -item[1])}


def importance(story: Story, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The importances as bars."""
    found = importances(story, names)
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": list(found.values()),
        "y": list(found),
        "marker": {"color": WINNER},
        "hovertemplate": "%{y}: %{x:.3f}<extra></extra>",
    }
    height = 120 + 32 * len(found)
    y = axis("", autorange="reversed")
    return figure([trace], axis("importance", rangemode="tozero"), y, showlegend=False, height=height)
