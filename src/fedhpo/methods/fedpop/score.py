"""The score of a trial, or of a slot, over its last rounds (Chen et al., 2025, Eq. 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def discounted(losses: Sequence[float], interval: int, discount: float) -> float:
    """The score (Eq. 5): the mean of the last `interval` losses, each round's weight `discount`
    times that of the next; NaN without any. Rounds without a loss (NaN) are left out.

    >>> discounted([9.0, 3.0, 1.0], interval=2, discount=0.5)
    1.666...
    """
    recent = losses[-interval:]
    weights = [discount ** (len(recent) - 1 - place) for place in range(len(recent))]
    known = [(w, loss) for w, loss in zip(weights, recent, strict=True) if not math.isnan(loss)]
    total = math.fsum(w for w, _ in known)
    return math.fsum(w * loss for w, loss in known) / total if total else math.nan
