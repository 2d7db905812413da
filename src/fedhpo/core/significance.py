"""One-sided tests that a mean over clients is above 0.

Nothing here is clamped: a test needs values as they were observed, noise included.
"""

from __future__ import annotations

import math

#: A gain is called certain where chance alone would reach it at most so often.
LEVEL = 0.05
#: The p-value that is asked for to hold that: Student's t is exact for normal differences only, and the
#: spread of private ones is itself an estimate.
ASKED = 0.04


def level_of(rivals: int) -> float:
    """What a p-value must not exceed where the best of `rivals` was chosen at the clients of the test.

    Bonferroni's correction: the chance that any of them reaches it is then still below `LEVEL`.

    >>> level_of(1), level_of(10)
    (0.04, 0.004)
    """
    return ASKED / max(1, rivals)


def p_value(mean: float, error: float, clients: float) -> float | None:
    """The chance of such a mean, or a larger one, where the true mean is 0: Student's t; None if not known.

    `clients` may be an effective number, where they weigh differently. n clients whose differences are as
    likely to be positive as negative all agree with a chance of 2^-n: p-values do not get smaller than that.

    >>> round(p_value(0.03, 0.01, 20), 4), p_value(0.5, 0.0, 3), p_value(0.1, math.nan, 20)
    (0.0037, 0.125, None)
    """
    from scipy.special import stdtr

    if not (math.isfinite(mean) and math.isfinite(error)) or clients < 2:
        return None
    if error == 0:
        found = 0.0 if mean > 0 else 1.0
    else:
        found = float(stdtr(clients - 1, -mean / error))
    return max(found, float(2.0**-clients))


def private_p_value(mean: float, spread: float, scale: float, clients: int) -> float:
    """The same for a mean with Laplace noise of this scale, whose error without the noise is `spread`.

    The mean is then a normal number plus a Laplace number, whose tail has a closed form.

    >>> round(private_p_value(0.1 * math.log(10), 1e-9, 0.1, 50), 4)  # the noise alone: exp(-x / scale) / 2
    0.05
    >>> round(private_p_value(1.6449 * 0.1, 0.1, 1e-9, 50), 4)  # hardly any noise: a normal number
    0.05
    """
    from scipy.special import log_ndtr, ndtr

    if spread < 1e-6 * scale:
        above = 0.5 * math.exp(-abs(mean) / scale)
        return max(above if mean >= 0 else 1 - above, 2.0**-clients)
    at, ratio = mean / spread, spread / scale
    found = float(ndtr(-at))
    if ratio < 1e4:  # else there is no noise to speak of
        found += 0.5 * math.exp(ratio**2 / 2 - mean / scale + float(log_ndtr(at - ratio)))
        found -= 0.5 * math.exp(ratio**2 / 2 + mean / scale + float(log_ndtr(-at - ratio)))
    return min(1.0, max(found, 2.0**-clients))


def non_negative(noisy: float, scale: float) -> float:
    """What to expect of a number of at least 0 that was observed with Laplace noise of this scale.

    The mean of its posterior, all such numbers being equally likely before. To take negative ones for 0
    would call means certain whose spread was only drowned in noise.

    >>> non_negative(-3.0, 0.5), round(non_negative(3.0, 0.01), 4)
    (0.5, 3.0)
    """
    if noisy <= 0:
        return scale
    below = 1 - math.exp(-noisy / scale)
    return (2 * noisy * scale + scale**2 * (1 - below)) / (scale * (1 + below))
