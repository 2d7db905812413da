"""Means that a few clients cannot move far, with their standard errors; and trials ranked by them.

A median of raw scores looks at one quantile of the clients: with liars on one side it only moves to another
one, and two trials are compared at different clients. What one client says of two trials differs by far less
than two clients do, so `robust_rank` compares trials by the trimmed mean of these differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.protocol.federation import Floats


def middle_and_error(values: Floats, over: str, trim: float) -> tuple[float, float]:
    """The "median" or the "trimmed" mean of values, and its standard error.

    >>> middle_and_error(np.array([0.0, 0.4, 0.6, 9.0]), "trimmed", 0.25)[0]
    0.5
    """
    return median_and_error(values) if over == "median" else trimmed_and_error(values, trim)


def trimmed_and_error(values: Floats, trim: float) -> tuple[float, float]:
    """The mean without the share `trim` of values at either end (rounded down), and its standard error.

    The error is that of Tukey and McLaughlin (1963): the winsorised standard deviation over
    (1 - 2 x trim) x sqrt(n).

    >>> trimmed_and_error(np.array([1.0, 2.0, 4.0, 90.0]), 0.25)  # winsorised: 2, 2, 4, 4
    (3.0, 1.1547005383792515)
    """
    ordered = np.sort(values)
    n = len(ordered)
    cut = int(trim * n + 1e-9)
    mean = float(ordered[cut : n - cut].mean())
    if n - 2 * cut < 2:
        return mean, math.nan
    winsorised = np.clip(ordered, ordered[cut], ordered[n - cut - 1])
    return mean, float(winsorised.std(ddof=1)) * math.sqrt(n) / (n - 2 * cut)


def median_and_error(values: Floats) -> tuple[float, float]:
    """The median, and its standard error from two order statistics around it (Price and Bonett, 2001).

    Of seven values these are the first and the last, which lie on either side of the median with a chance of
    1 - 2/128, as 2.42 standard errors of a normal distribution would.

    >>> median_and_error(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]))
    (4.0, 1.2409211025880973)
    """
    from scipy.stats import binom, norm

    ordered = np.sort(values)
    n = len(ordered)
    if n < 3:
        return float(np.median(ordered)), math.nan
    rank = max(1, round((n + 1) / 2 - math.sqrt(n)))
    errors = float(norm.ppf(1 - binom.cdf(rank - 1, n, 0.5)))
    return float(np.median(ordered)), float(ordered[n - rank] - ordered[rank - 1]) / (2 * errors)


def weighted_trimmed(values: Floats, weights: Floats, trim: float) -> tuple[float, float]:
    """The weighted mean without the share `trim` of values at either end, and its standard error.

    At least one value is left out at either end, where that leaves any. The error is that of
    `trimmed_and_error`, with weights.

    >>> weighted_trimmed(np.array([1.0, 2.0, 4.0, 90.0]), np.array([1.0, 3.0, 1.0, 1.0]), 0.25)[0]
    2.5
    """
    order = np.argsort(values, kind="stable")
    ordered, shares = values[order], weights[order] / weights.sum()
    n = len(ordered)
    cut = int(_cut(np.array(n), trim))
    inside = slice(cut, n - cut)
    mean = float((ordered[inside] * shares[inside]).sum() / shares[inside].sum())
    if n - 2 * cut < 2 or not math.isfinite(mean):
        return mean, math.nan
    winsorised = np.clip(ordered, ordered[cut], ordered[n - cut - 1])
    spread = float((shares**2 * (winsorised - (shares * winsorised).sum()) ** 2).sum())
    return mean, math.sqrt(spread * n / (n - 1)) * n / (n - 2 * cut)


def _cut(counts: NDArray[Any], trim: float) -> NDArray[np.int64]:
    """How many of so many values are left out at either end where each has a weight: one at least."""
    wanted = np.maximum((trim * counts + 1e-9).astype(np.int64), 1)
    found: NDArray[np.int64] = np.minimum(wanted, (counts - 1) // 2)
    return found


def robust_rank(
    scores: Sequence[Floats], over: str = "trimmed", trim: float = 0.25, weights: Floats | None = None
) -> Floats:
    """How good each of several trials is, less being better: middles of paired differences.

    `scores` has a row for each trial and a column for each client, the same clients for all; less is better,
    NaN where a client did not reply, infinite where a model is of no use there. A trial's value is the mean
    over all trials of the middle ("trimmed" mean or "median") of its clients' differences from that trial.
    A pair without common clients says nothing; a trial without a score is infinitely bad. With `weights`
    of the clients the trimmed mean is weighted, and leaves out one client at least at either end.

    >>> honest, liar = [0.1, 0.2, 0.3], 0.9
    >>> robust_rank([np.array([*honest, liar]), np.array([0.3, 0.4, 0.5, 0.0])]).round(3).tolist()
    [-0.1, 0.1]
    """
    table = np.stack([np.asarray(row, np.float64) for row in scores])
    known = ~np.isnan(table)
    found = np.full(len(table), math.inf)
    rivals = np.flatnonzero(known.any(axis=1))
    for trial in rivals:
        with np.errstate(invalid="ignore"):  # two that are of no use at a client do not differ there
            differences = table[trial] - table[rivals]
            middles = (
                _middles(differences, over, trim)
                if weights is None
                else weighted_middles(differences, weights, trim)
            )
        found[trial] = middles[~np.isnan(middles)].mean()
    return found


def _middles(differences: Floats, over: str, trim: float) -> Floats:
    """The middle of each row, NaN in it left out; NaN for a row of nothing else.

    >>> rows = np.array([[0.0, 9.0, 2.0, 3.0], [np.nan, 5.0, np.nan, 1.0]])
    >>> _middles(rows, "trimmed", 0.25).tolist(), _middles(rows, "median", 0.25).tolist()
    ([2.5, 3.0], [2.5, 3.0])
    """
    ordered = np.sort(differences, axis=1)  # NaN comes last
    counts = (~np.isnan(differences)).sum(axis=1)[:, None]
    cut = (counts - 1) // 2 if over == "median" else (trim * counts + 1e-9).astype(np.int64)
    places = np.arange(differences.shape[1])[None, :]
    inside = (places >= cut) & (places < counts - cut)
    sums = np.where(inside, ordered, 0.0).sum(axis=1)
    found: Floats = np.where(counts[:, 0] > 0, sums / np.maximum(inside.sum(axis=1), 1), math.nan)
    return found


def weighted_middles(differences: Floats, weights: Floats, trim: float) -> Floats:
    """The weighted trimmed mean of each row, NaN in it left out; NaN for a row of nothing else.

    >>> rows = np.array([[0.0, 9.0, 2.0, 3.0], [np.nan, 5.0, np.nan, 1.0]])
    >>> weighted_middles(rows, np.array([1.0, 1.0, 3.0, 1.0]), 0.25).tolist()
    [2.25, 3.0]
    """
    order = np.argsort(differences, axis=1, kind="stable")  # NaN comes last
    ordered = np.take_along_axis(differences, order, axis=1)
    counts = (~np.isnan(differences)).sum(axis=1)[:, None]
    cut = np.maximum(_cut(counts, trim), 0)
    places = np.arange(differences.shape[1])[None, :]
    inside = (places >= cut) & (places < counts - cut)
    shares = np.where(inside, weights[order], 0.0)
    sums = (np.where(inside, ordered, 0.0) * shares).sum(axis=1)
    totals = shares.sum(axis=1)
    found: Floats = np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), math.nan)
    return found
