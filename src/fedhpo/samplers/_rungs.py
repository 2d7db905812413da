"""Which observations a model learns from: those of one rung, since scores at different rounds differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedhpo.protocol.sampler import Observation


def highest_rung(observations: Sequence[Observation], least: int) -> list[Observation]:
    """The observations at the largest round that has at least `least` finite ones; none if none has.

    This is BOHB's rule (Falkner et al., 2018, section 3.2). A trial counts once in a rung, with its
    latest score there. One that failed is bad news for its rung and for all above.
    """
    rungs: dict[int, dict[int, Observation]] = {}
    for seen in observations:
        if math.isfinite(seen.score.rank_value):
            rungs.setdefault(seen.score.round, {})[seen.trial] = seen
    large = [round for round, rung in rungs.items() if len(rung) >= least]
    if not large:
        return []
    chosen = max(large)
    rung = rungs[chosen]
    for seen in observations:
        if not math.isfinite(seen.score.rank_value) and seen.score.round <= chosen:
            rung.setdefault(seen.trial, seen)
    return list(rung.values())
