"""Landmarks: a few arms that were also trained alone for short, and whose order the policy keeps.

Yu, Ranftl and Salzmann (2021), Landmark regularization: ranking guided super-net training in neural
architecture search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedhpo.protocol.federation import Floats


@dataclass(frozen=True)
class Landmark:
    """Client hyperparameters, and the score they reached alone; lower is better."""

    client: Mapping[str, Any]
    value: float


def in_order(values: Floats, best_first: Sequence[int]) -> Floats:
    """The nearest vector (least squares) in which the named entries do not increase in this order.

    Isotonic regression by pooling adjacent violators; the other entries stay.

    >>> import numpy as np
    >>> in_order(np.array([1.0, 3.0, 9.0, 0.0]), best_first=[0, 1, 3]).tolist()
    [2.0, 2.0, 9.0, 0.0]
    """
    pools: list[tuple[float, int]] = []
    for value in values[list(best_first)].tolist():
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [((a * n + b * m) / (n + m), n + m)]
    found = values.copy()
    found[list(best_first)] = [value for value, count in pools for _ in range(count)]
    return found
