"""Which observations a model learns from: those of one rung, since scores at different rounds differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedhpo.protocol.sampler import Observation


def highest_rung(observations: Sequence[Observation], least: int) -> list[Observation]:
    """The observations at the largest round that has at least `least` finite ones; none if none has.

    This is BOHB's rule (Falkner et al., 2018, section 3.2). A trial counts once in a rung, with the mean of
    its scores there. One that failed is bad news for its rung and for all above.
    """
    rungs: dict[int, dict[int, list[Observation]]] = {}
    for seen in observations:
        if math.isfinite(seen.score.rank_value):
            rungs.setdefault(seen.score.round, {}).setdefault(seen.trial, []).append(seen)
    large = [round for round, rung in rungs.items() if len(rung) >= least]
    if not large:
        return []
    chosen = max(large)
    rung = {trial: averaged(scores) for trial, scores in rungs[chosen].items()}
    for seen in observations:
        if not math.isfinite(seen.score.rank_value) and seen.score.round <= chosen:
            rung.setdefault(seen.trial, seen)
    return list(rung.values())


def averaged(seen: Sequence[Observation]) -> Observation:
    """Several scores of one trial at one round as one: fresh clients, or fresh noise, each time."""
    if len(seen) == 1:
        return seen[0]
    scores, count = [one.score for one in seen], len(seen)
    mean = replace(
        scores[-1],
        value=math.fsum(score.value for score in scores) / count,
        rank_value=math.fsum(score.rank_value for score in scores) / count,
        standard_error=math.hypot(*(score.standard_error for score in scores)) / count,
        clients=sum(score.clients for score in scores),
    )
    return replace(seen[-1], score=mean)
