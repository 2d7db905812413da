"""Evidence that a candidate is better than the base, from paired differences; valid at any stop.

Pair i is one training of each with the same seed and cohorts, d_i the candidate's score minus the base's, so
that more is better. For a bet of size lambda the evidence is multiplied by

    exp(lambda d) / cosh(lambda d) = 1 + tanh(lambda |d|) sign(d),

and the evidence is the mean over several lambdas of these products. Its assumption: under the null
hypothesis, whatever came before, a difference of some size is at least as likely to be negative as positive.
That holds where d is symmetric about 0, or about a negative number with one mode. Then each factor has a mean
of at most 1 given |d|, and by Ville's inequality the evidence ever reaches 1 / alpha with a chance of at most
alpha, however often one looks and whenever one stops (Shafer, 2021; Ramdas et al., 2023).

Lambda is measured in root mean squares of the differences up to this pair. They may be used because a factor
may depend on |d_i| and on all pairs before in any way: given these, only the sign is left to chance. So the
evidence does not depend on the unit of the score.

A factor is at most 2: n pairs give at most 2^n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedhpo.protocol.federation import Floats

#: The sizes of bets, each with the same share: a clear difference gains by large ones, a small one by small.
BETS: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)


def evidence_path(differences: Sequence[float] | Floats) -> Floats:
    """The evidence after each pair.

    >>> evidence_path([0.5]).round(4).tolist()  # the mean of 1 + tanh(bet)
    [1.7968]
    >>> evidence_path([-0.5]).round(4).tolist(), evidence_path([0.0]).tolist()
    ([0.2032], [1.0])
    """
    d = np.asarray(differences, dtype=np.float64)
    if not len(d):
        return d
    scale = np.sqrt(np.cumsum(d**2) / np.arange(1, len(d) + 1))
    unit = np.divide(d, scale, out=np.zeros_like(d), where=scale > 0)
    bets = np.array(BETS)[:, None]
    path: Floats = np.cumprod(1 + np.tanh(bets * unit), axis=1).mean(axis=0)
    return path


def evidence(differences: Sequence[float] | Floats) -> float:
    """The evidence after the last pair; 1 without any.

    >>> evidence([]), round(evidence([0.01, 0.02]), 4) == round(evidence([10.0, 20.0]), 4)
    (1.0, True)
    """
    return float(evidence_path(differences)[-1]) if len(differences) else 1.0


def least_pairs(threshold: float) -> int:
    """The fewest pairs that can reach a threshold, as a factor is at most 2.

    >>> least_pairs(20 / 0.05), least_pairs(1 * 2 / 0.05)
    (9, 6)
    """
    return max(1, math.ceil(math.log2(threshold)))


def mean_and_interval(
    differences: Sequence[float] | Floats, level: float = 0.95
) -> tuple[float, float, float]:
    """The mean difference with Student's interval, for a number of pairs that was fixed beforehand.

    >>> mean_and_interval([0.01, 0.02, 0.03])[0].__round__(4)
    0.02
    """
    from scipy.special import stdtrit

    d = np.asarray(differences, dtype=np.float64)
    mean = float(d.mean()) if len(d) else math.nan
    if len(d) < 2:
        return mean, math.nan, math.nan
    half = float(stdtrit(len(d) - 1, (1 + level) / 2)) * float(d.std(ddof=1)) / math.sqrt(len(d))
    return mean, mean - half, mean + half
