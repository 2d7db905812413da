"""Whether a method ranks configs as training each of them alone does.

The three metrics that Nakka et al. (2023, section 4) propose for a learned policy, and the regret of what
it chooses. `given` is what a method thinks of each config (FedEx: log weights of its arms; any other: its
scores), `truth` the score that each reaches when it is trained alone; in both more is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedhpo.core.errors import InputError


@dataclass(frozen=True)
class Ranking:
    """How well configs are ranked; NaN where it is not defined, as for constant values."""

    kendall: float
    spearman: float
    average_precision: float
    regret: float

    def to_dict(self) -> dict[str, float]:
        """JSON-able."""
        return asdict(self)


def compare(given: ArrayLike, truth: ArrayLike, n: int = 4, k: int = 10) -> Ranking:
    """All four at once.

    >>> compare([3.0, 2.0, 1.0], [0.9, 0.8, 0.1], n=1, k=2)
    Ranking(kendall=1.0, spearman=1.0, average_precision=1.0, regret=0.0)
    """
    return Ranking(
        kendall_tau(given, truth),
        spearman(given, truth),
        average_precision(given, truth, n, k),
        regret(given, truth),
    )


def kendall_tau(given: ArrayLike, truth: ArrayLike) -> float:
    """Kendall's tau-b: pairs in the same order less those in the other, corrected for ties.

    >>> round(kendall_tau([1, 2, 3, 4], [1, 2, 4, 3]), 4)  # five pairs of six agree
    0.6667
    """
    a, b = _pair(given, truth)
    first, second = (np.sign(x[:, None] - x[None, :])[np.triu_indices(len(x), 1)] for x in (a, b))
    scale = float(np.count_nonzero(first)) * float(np.count_nonzero(second))
    return float((first * second).sum() / np.sqrt(scale)) if scale else float("nan")


def spearman(given: ArrayLike, truth: ArrayLike) -> float:
    """Spearman's correlation: Pearson's of the ranks, equal values sharing their mean rank.

    >>> round(spearman([1, 2, 3, 4], [1, 2, 4, 3]), 4)  # 1 - 6 * 2 / (4 * 15)
    0.8
    """
    from scipy.stats import rankdata

    ranks = [rankdata(x) for x in _pair(given, truth)]
    a, b = (rank - rank.mean() for rank in ranks)
    scale = float((a @ a) * (b @ b))
    return float(a @ b / np.sqrt(scale)) if scale else float("nan")


def average_precision(given: ArrayLike, truth: ArrayLike, n: int = 4, k: int = 10) -> float:
    """AP_n@k: how early the n truly best come among the first k (Mittal et al., 2020).

    The mean over the truly best, or over k if that is fewer, of the precision at the place where each
    comes; one that is not among the first k counts 0. Ties go to the lower index.

    >>> average_precision([9, 8, 7, 6], [1, 5, 9, 0], n=2, k=3)  # places 2 and 3: (1/2 + 2/3) / 2
    0.5833333333333333
    """
    for name, value in (("n", n), ("k", k)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, not {value}")
    a, b = _pair(given, truth)
    best = set(_best_first(b)[:n].tolist())
    hits = np.array([arm in best for arm in _best_first(a)[:k].tolist()], dtype=np.float64)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / min(n, k, len(a)))


def regret(given: ArrayLike, truth: ArrayLike) -> float:
    """How much worse the chosen config, that with the highest `given`, is than the truly best one.

    >>> regret([1, 3, 2], [0.5, 0.75, 1.0])
    0.25
    """
    a, b = _pair(given, truth)
    return float(b.max() - b[_best_first(a)[0]])


def over_rounds(log_weights: Sequence[Sequence[float]], truth: ArrayLike) -> Mapping[str, list[float]]:
    """Each metric after every round: of a policy, its log weights round by round."""
    found = [compare(weights, truth).to_dict() for weights in log_weights]
    return {name: [one[name] for one in found] for name in Ranking.__dataclass_fields__}


def _best_first(values: NDArray[np.float64]) -> NDArray[np.intp]:
    return np.argsort(-values, kind="stable")


def _pair(given: ArrayLike, truth: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(given, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise InputError(f"given and truth must be two lists of one length, not {a.shape} and {b.shape}")
    if np.isnan(a).any() or np.isnan(b).any():
        raise InputError("given and truth must not hold NaN: a config without a score counts as the worst")
    return a, b
