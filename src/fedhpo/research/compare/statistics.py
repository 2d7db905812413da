"""Whether a method is better than another, from few seeds: ranks, exact paired tests, Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from fedhpo.protocol.federation import Floats
from fedhpo.research.statistics import holm


def signed_rank_p(differences: Sequence[float] | Floats) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test, exact also where ranks are tied; zeros are dropped.

    >>> signed_rank_p([1, 2, 3, 4, 5, 6, 7, 8])
    0.0078125
    """
    from scipy.stats import rankdata

    known = np.array([d for d in differences if d != 0], float)
    if not len(known):
        return 1.0
    # Twice the mean ranks are whole numbers: how often each sum comes up is a product of polynomials.
    ranks = np.rint(2 * rankdata(np.abs(known))).astype(int)
    ways = np.ones(1)
    for rank in ranks:
        longer = np.zeros(len(ways) + rank)
        longer[: len(ways)] += ways
        longer[rank:] += ways
        ways = longer / 2
    middle = ranks.sum() / 2
    far = abs(ranks[known > 0].sum() - middle)
    sums = np.arange(len(ways))
    return float(min(1.0, ways[np.abs(sums - middle) >= far - 1e-9].sum()))


def sign_p(wins: int, losses: int) -> float:
    """Two-sided p-value of the sign test.

    >>> sign_p(8, 0)
    0.0078125
    """
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


@dataclass(frozen=True)
class Pair:
    """Two methods, seed by seed. A difference is positive where the first is better; p-values are Holm's."""

    first: str
    second: str
    wins: int
    losses: int
    ties: int
    median_difference: float
    wilcoxon_p: float
    sign_p: float


def pairs(scores: Mapping[str, Sequence[float]], maximise: bool) -> list[Pair]:
    """Every pair of methods; `scores` are those of the same seeds, in the same order."""
    better = 1 if maximise else -1
    found = []
    for first, second in combinations(scores, 2):
        difference = better * (np.asarray(scores[first], float) - np.asarray(scores[second], float))
        difference = difference[np.isfinite(difference)]  # a run that came to nothing says nothing
        wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
        found.append(
            Pair(
                first,
                second,
                wins,
                losses,
                len(difference) - wins - losses,
                float(np.median(difference)) if len(difference) else 0.0,
                signed_rank_p(difference),
                sign_p(wins, losses),
            )
        )
    wilcoxon, signs = holm([p.wilcoxon_p for p in found]), holm([p.sign_p for p in found])
    return [
        replace(p, wilcoxon_p=rank, sign_p=sign) for p, rank, sign in zip(found, wilcoxon, signs, strict=True)
    ]


def mean_ranks(scores: Mapping[str, Sequence[float]], maximise: bool) -> dict[str, float]:
    """The mean over seeds of each method's rank, 1 being the best; ties share their ranks, NaN comes last.

    >>> mean_ranks({"a": [0.1, 0.2], "b": [0.3, 0.2]}, maximise=False)
    {'a': 1.25, 'b': 1.75}
    """
    from scipy.stats import rankdata

    table = np.array(list(scores.values()), float)
    table = np.nan_to_num(-table if maximise else table, nan=np.inf)
    ranks = rankdata(table, axis=0).mean(axis=1)
    return {name: float(rank) for name, rank in zip(scores, ranks, strict=True)}


def in_words(found: Sequence[Pair], seeds: int, level: float = 0.05) -> list[str]:
    """What the tests say, and what they cannot say."""
    if not found:
        return []
    least = min(1.0, len(found) * 2.0 ** (1 - seeds))
    if least > level:
        return [
            f"With {seeds} seeds and {len(found)} pairs of methods the smallest p-value that can come out is "
            f"{least:.3g}: no difference, however clear, can be told from chance. Use more seeds."
        ]
    lines = []
    for pair in found:
        if pair.wilcoxon_p <= level:
            better, worse = (pair.first, pair.second)
            wins, losses = pair.wins, pair.losses
            if pair.median_difference < 0 or (pair.median_difference == 0 and losses > wins):
                better, worse, wins, losses = worse, better, losses, wins
            lines.append(
                f"{better} is better than {worse} (in {wins} of {seeds} seeds, worse in {losses}; median "
                f"difference {abs(pair.median_difference):.4f}; p = {pair.wilcoxon_p:.3g}, paired Wilcoxon "
                "test, Holm's correction)."
            )
    if len(lines) < len(found):
        others = "The other differences" if lines else "No difference between methods"
        verb = "are not significant" if lines else "is significant"
        lines.append(
            f"{others} {verb} at the level {level:g} with {seeds} seeds; that does not show that the methods "
            "are equal."
        )
    lines.append("All seeds share one data set and one model: this is about this study, not about others.")
    return lines
