"""How much a figure owes to the configs and the clients of a table: a delete-d jackknife over both.

A table holds some configs out of many, and some clients. Its figures would be others with others of them.
Three quarters of the configs and of the clients are kept at random, without replacement (a bootstrap would
put a config twice into a pool), the figure is made anew, and so on many times. The variance between these,
times kept / left out, estimates the variance of the figure (Shao and Wu, 1989, "A general theory for
jackknife variance estimation"). Configs and clients are drawn independently, so the variances due to both
add up. What is due to single pairs of them is counted up to 7/3 times: the error is rather too large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.protocol.federation import Floats, Ints
from fedhpo.research.tables.curve_table import CurveTable

#: The share of configs, and of clients, that a part of a table keeps.
KEPT = 0.75


@dataclass(frozen=True, eq=False)
class Part:
    """Places of the configs and of the validation clients that are kept, in ascending order."""

    configs: Ints
    clients: Ints

    def of(self, table: CurveTable) -> CurveTable:
        """The table with these configs and validation clients only.

        >>> from fedhpo.testing.table import toy_table
        >>> part = Part(np.array([0, 2]), np.array([1, 3, 4])).of(toy_table(configs=8, rounds=9, clients=5))
        >>> len(part.configs), len(part.validation_clients), part.wrong.shape[1::2]
        (2, 3, (2, 3))
        """
        return table.kept(self.configs, self.clients)


@dataclass(frozen=True, eq=False)
class Jackknife:
    """Parts of a table, and what their figures say of the figure of the whole.

    >>> knife = Jackknife.of(configs=40, clients=100, parts=50, seed=0)
    >>> len(knife.parts), len(knife.parts[0].configs), len(knife.parts[0].clients), knife.factor
    (50, 30, 75, 3.0)
    """

    parts: tuple[Part, ...]
    #: Kept / left out: by this the variance between parts is multiplied.
    factor: float

    @classmethod
    def of(cls, configs: int, clients: int, parts: int, seed: int = 0) -> Jackknife:
        """Draw so many parts; part k is the same whatever their number."""
        kept = [round(KEPT * count) for count in (configs, clients)]
        if min(kept) < 2 or min(configs - kept[0], clients - kept[1]) < 1 or parts < 2:
            raise InputError(
                "a jackknife needs at least 3 configs, 3 clients and 2 parts, "
                f"not {configs}, {clients} and {parts}"
            )
        rngs = [stream(seed, "jackknife", number) for number in range(parts)]
        drawn = [Part(_some(rng, configs, kept[0]), _some(rng, clients, kept[1])) for rng in rngs]
        factor = max(kept[0] / (configs - kept[0]), kept[1] / (clients - kept[1]))
        return cls(tuple(drawn), factor)

    def errors(self, figures: ArrayLike, within: ArrayLike = 0.0, own: ArrayLike = 0.0) -> Floats:
        """Standard errors of figures of the whole, from the `figures` of the parts, one part a row.

        Figures of searches with chance in them vary also between seeds: `within` is that variance of a
        part's figure (the squared standard error of its mean over seeds), which is taken off; `own` is that
        of the whole's figure, which is added. Parts that share their seeds with each other need neither.

        >>> knife = Jackknife.of(configs=40, clients=100, parts=3, seed=0)
        >>> float(knife.errors([1.0, 2.0, 3.0]))
        1.4142135623730951
        """
        values = np.asarray(figures, np.float64)
        if len(values) != len(self.parts):
            raise InputError(f"figures must be those of {len(self.parts)} parts, not of {len(values)}")
        between = ((values - values.mean(axis=0)) ** 2).mean(axis=0)
        inside = np.broadcast_to(np.asarray(within, np.float64), values.shape).mean(axis=0)
        found: Floats = np.sqrt(self.factor * np.maximum(between - inside, 0.0) + np.asarray(own, np.float64))
        return found

    def critical(self, figures: ArrayLike, level: float = 0.95) -> float:
        """How many standard errors hold all of several figures at once with this probability.

        The quantile over parts of the largest deviation of any figure, in its own standard deviations; at
        least that of a single normal figure. Columns that never vary do not count.

        >>> knife = Jackknife.of(configs=40, clients=100, parts=400, seed=0)
        >>> normal = np.random.default_rng(0).standard_normal((400, 20))
        >>> 1.95 < knife.critical(normal[:, :1]) < 2.1, 2.8 < knife.critical(normal) < 3.3
        (True, True)
        """
        values = np.asarray(figures, np.float64).reshape(len(self.parts), -1)
        off = values - values.mean(axis=0)
        spread = np.sqrt((off**2).mean(axis=0))
        single = _normal_quantile((1 + level) / 2)
        varies = spread > 1e-12 * np.maximum(1.0, np.abs(values).max(axis=0))
        if not varies.any():
            return single
        largest = np.abs(off[:, varies] / spread[varies]).max(axis=1)
        return max(single, float(np.quantile(largest, level)))


def pooled(errors: Sequence[float]) -> float:
    """The standard error of the mean over tables, which are fixed: each table has its own error.

    >>> pooled([3.0, 4.0])
    2.5
    """
    return math.sqrt(sum(error**2 for error in errors)) / len(errors)


def _some(rng: np.random.Generator, count: int, kept: int) -> Ints:
    found: Ints = np.sort(rng.permutation(count)[:kept])
    return found


def _normal_quantile(share: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(share)
