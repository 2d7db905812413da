"""Verdicts on the claims of one family, such as those of one paper, with Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.research.statistics.paired import Paired

HOLDS, DOES_NOT_HOLD, EQUIVALENT, UNDECIDED = "holds", "does not hold", "equivalent", "undecided"


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for there being several (Holm, 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    corrected, largest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[i]))
        corrected[int(i)] = largest
    return corrected


@dataclass(frozen=True)
class Judged:
    """One claim of a family: its differences, its p-value with Holm's correction, and the verdict."""

    paired: Paired
    p_value: float
    verdict: str


def judge(
    family: Mapping[str, Paired],
    margins: Mapping[str, float | None] | None = None,
    *,
    level: float = 0.95,
    family_size: int | None = None,
) -> dict[str, Judged]:
    """The verdict on each claim that the first method is better than the second.

    "holds": the lower bound of the mean difference is above 0; "does not hold": its upper bound is below 0.
    Both at the level that Holm's correction leaves the claim, that is, its corrected p-value is at most
    1 - `level`. "equivalent": the interval of 90% (of 2 `level` - 1) lies inside the claim's margin, where
    it has one. Otherwise "undecided". With `family_size` claims that are not there count as well.

    >>> found = judge({"a": Paired((2.0, 2.5) * 10), "b": Paired((0.1, -0.1) * 10)}, {"b": 0.3})
    >>> found["a"].verdict, found["b"].verdict
    ('holds', 'equivalent')
    """
    p_values = [paired.p_value() for paired in family.values()]
    missing = max(0, (family_size or 0) - len(p_values))
    corrected = holm([*p_values, *[1.0] * missing])[: len(p_values)]
    found = {}
    for (name, paired), p_value in zip(family.items(), corrected, strict=True):
        margin = (margins or {}).get(name)
        found[name] = Judged(paired, p_value, _verdict(paired, p_value, margin, level))
    return found


def _verdict(paired: Paired, p_value: float, margin: float | None, level: float) -> str:
    if p_value <= 1 - level + 1e-12:
        return HOLDS if paired.mean > 0 else DOES_NOT_HOLD
    if margin is not None:
        low, high = paired.interval(2 * level - 1)
        if -margin < low and high < margin:
            return EQUIVALENT
    return UNDECIDED
