"""Gap scores: how far each contender of a private choice stays behind the best one at the same client.

A client counts a contender as `max(own score - own best, -w)`, its own best being over the contenders of this
release. So it moves the sum of each contender by at most w, where whole scores may move it by 1: the noise of
a choice shrinks by w, and what clients have in common (some data are easier) falls out. The
proofs, condition by condition, are in docs/evaluation.md.
"""

from __future__ import annotations

import numpy as np

from fedhpo.privacy.noise import Noise
from fedhpo.protocol.federation import Floats

#: The narrowest window: below it all that is not the best looks the same.
LEAST = 0.1
#: The window at raw noise of 1, and how it grows as that noise falls.
_AT_ONE, _POWER = 0.15, 0.3


def gap_width(epsilon: float, asked: int) -> float:
    """The window w of one choice with this epsilon at so many clients: public quantities only.

    It grows as the noise of whole scores, 2 / (epsilon asked), falls: clipping biases a choice where clients
    disagree, and what a wider window costs in noise matters less then. `benchmarks/gaps.py` measures it.

    >>> [round(gap_width(epsilon, 8), 2) for epsilon in (0.01, 1.0, 10.0, 1000.0)]
    [0.1, 0.23, 0.45, 1.0]
    """
    return float(min(1.0, max(LEAST, _AT_ONE * (epsilon * asked / 2) ** _POWER)))


def gap_totals(scores: Floats, width: float, noise: Noise, *, maximise: bool) -> tuple[Floats, float]:
    """The sum of each contender's gaps, and how far one client can move it, both in the unit of the noise.

    `scores[contender, client]` lie in [0, 1] (`fedhpo.privacy.means.bounded`). They go onto the grid first;
    only then a client's best is subtracted and the gap clamped to [-w, 0], so that exact noise works on whole
    numbers from there on.

    >>> from fedhpo.privacy.noise import SeededNoise
    >>> noise = SeededNoise(np.random.default_rng(0))
    >>> totals, most = gap_totals(np.array([[0.5, 0.75], [1.0, 0.25]]), 0.25, noise, maximise=True)
    >>> totals.tolist(), most
    ([-0.25, -0.25], 0.25)
    """
    steps = noise.steps(scores) * (1 if maximise else -1)
    most = noise.widest(width)
    gaps = np.clip(steps - steps.max(axis=0), -most, 0)
    totals: Floats = gaps.sum(axis=1)
    return totals, float(most)
