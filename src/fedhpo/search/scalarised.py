"""Several objectives as one, so that every sampler can learn from them: random scalarisation (ParEGO).

For each suggestion weights of the objectives are drawn anew. A trial's value is then the worst of its
weighted objectives, plus a little of their sum (Knowles, 2006): over many suggestions the whole front is
approached.
Trials that break a constraint are worse than all others; those that break it most are worst.

A sampler that models several objectives itself, as the Gaussian process does with two, says so by its
attribute `objectives`, and is told them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedhpo.core.pareto import Floats
from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation, Sampler

#: What the sum counts beside the worst, as in the paper.
_SUM = 0.05


def told(
    sampler: Sampler, observations: Sequence[Observation], rng: np.random.Generator
) -> Sequence[Observation]:
    """Observations as a sampler takes them."""
    allowed = getattr(sampler, "objectives", 1)
    scores = (seen.score for seen in observations)
    if not any(score.violation or len(score.others) >= allowed for score in scores):
        return observations
    return scalarised(observations, rng)


def scalarised(observations: Sequence[Observation], rng: np.random.Generator) -> list[Observation]:
    """The same observations, their `rank_value` being one number for all objectives.

    Objectives are brought to the same scale among the observations of the same round.
    """
    able = [seen for seen in observations if math.isfinite(seen.score.rank_value)]
    if not any(seen.score.others or seen.score.violation for seen in able):
        return list(observations)
    weights = rng.dirichlet(np.ones(len(able[0].score.point)))
    found: dict[int, Observation] = {}
    for at in {seen.score.round for seen in able}:
        group = [seen for seen in able if seen.score.round == at]
        for seen, score in zip(group, _weighed([seen.score for seen in group], weights), strict=True):
            found[id(seen)] = replace(seen, score=score)
    return [found.get(id(seen), seen) for seen in observations]


def _weighed(scores: Sequence[Score], weights: Floats) -> list[Score]:
    """Scores of one round as one number each, with its error."""
    points = np.array([score.point for score in scores])
    errors = np.array([[one.standard_error for one in (score, *score.others)] for score in scores])
    spans = np.ptp(points, axis=0)
    scale = weights / np.where(spans > 0, spans, 1.0)
    weighted = (points - points.min(axis=0)) * scale
    values = weighted.max(axis=1) + _SUM * weighted.sum(axis=1)
    noise = np.sqrt(((errors * scale) ** 2).sum(axis=1))
    worst = float(values.max())
    return [
        replace(score, value=value, rank_value=value, standard_error=error)
        if not score.violation
        else replace(score, rank_value=worst + 1 - 1 / (1 + score.violation), standard_error=error)
        for score, value, error in zip(scores, values.tolist(), noise.tolist(), strict=True)
    ]
