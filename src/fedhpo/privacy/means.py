"""Noisy means of clients' scores: what a client said is brought into [0, 1], and noise goes on the sum.

One client can move a sum of scores in [0, 1] by 1, whatever the number of clients. How many replied is
public, so that dividing the noisy sum by it tells nothing more.
"""

from __future__ import annotations

import numpy as np

from fedhpo.privacy.noise import Noise
from fedhpo.protocol.federation import Floats

#: So far outside [0, 1] a score may be by rounding.
_ROUNDING = 1e-6


def bounded(values: Floats, *, maximise: bool) -> Floats:
    """Scores in [0, 1]; what is no score, or lies outside, counts as the worst one.

    It must not be left out instead: what one client says would then change how many replied.

    >>> bounded(np.array([0.25, np.nan, 7.0, -np.inf]), maximise=True).tolist()
    [0.25, 0.0, 0.0, 0.0]
    >>> bounded(np.array([0.25, np.nan, 1.0000001]), maximise=False).tolist()
    [0.25, 1.0, 1.0]
    """
    worst = 0.0 if maximise else 1.0
    given = np.asarray(values, dtype=np.float64)
    known = (given >= -_ROUNDING) & (given <= 1 + _ROUNDING)  # False where it is NaN
    found: Floats = np.clip(np.where(known, given, worst), 0.0, 1.0)
    return found


def mean_scale(weight: float, epsilon: float, replies: int) -> float:
    """The scale of the noise on a mean over so many replies, m / (epsilon r).

    `weight` is the most that the releases of the run weigh for one client, which spends `epsilon` on them.

    >>> mean_scale(3, 100.0, 1)  # Hyperband at 1 of 100 clients: 202 scores, 3 of one client
    0.03
    """
    return weight / (epsilon * replies)


def noisy_mean(scores: Floats, epsilon: float, noise: Noise) -> tuple[float, float]:
    """The mean of scores in [0, 1] with Laplace noise, and the scale of that noise.

    `epsilon` is that of this release: with m of them for one client, the m-th part of what it spends.
    """
    scale = noise.step / epsilon
    noisy = noise.laplace(np.array([noise.total(scores)]), scale)[0]
    return float(noisy * noise.unit / len(scores)), scale * noise.unit / len(scores)
