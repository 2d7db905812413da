"""Attacks on training: what a hostile client sends in place of its update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from fedhpo.core.vectors import Vector
from fedhpo.testing.attacks.attack import Attack, Known


@dataclass(frozen=True)
class SignFlip(Attack):
    """Its own update, turned round and scaled: training goes backwards.

    >>> own = np.array([1.0, -2.0], np.float32)
    >>> SignFlip(scale=10.0).update(own, own[None], np.random.default_rng(0)).tolist()
    [-10.0, 20.0]
    """

    scale: float = 10.0

    def update(self, own: Vector, known: Known, rng: np.random.Generator) -> Vector:
        return np.float32(-self.scale) * own


@dataclass(frozen=True)
class Noise(Attack):
    """Gaussian noise whose standard deviation is `scale` times the root mean square of its own update."""

    scale: float = 10.0

    def update(self, own: Vector, known: Known, rng: np.random.Generator) -> Vector:
        spread = self.scale * float(np.sqrt(np.mean(np.square(own, dtype=np.float64))))
        return (spread * rng.standard_normal(len(own))).astype(np.float32)


@dataclass(frozen=True)
class LittleIsEnough(Attack):
    """The known updates' mean, moved by `deviations` standard deviations in every coordinate: near enough to
    pass for honest, far enough to do harm (Baruch et al., 2019, "A little is enough", Algorithm 3).

    >>> known = np.array([[0.0, 1.0], [2.0, 3.0]], np.float32)
    >>> LittleIsEnough(0.5).update(known[0], known, np.random.default_rng(0)).tolist()
    [0.5, 1.5]
    """

    deviations: float = 1.0

    def update(self, own: Vector, known: Known, rng: np.random.Generator) -> Vector:
        moved: Vector = known.mean(axis=0) - np.float32(self.deviations) * known.std(axis=0)
        return moved

    @classmethod
    def against(cls, clients: int, hostile: int) -> LittleIsEnough:
        """The paper's deviations: with the hostile ones, these leave a majority beyond the honest median.

        >>> round(LittleIsEnough.against(clients=50, hostile=24).deviations, 2)
        1.43
        """
        needed = clients // 2 + 1 - hostile
        honest = clients - hostile
        return cls(float(norm.ppf((honest - needed) / honest)))


@dataclass(frozen=True)
class InnerProduct(Attack):
    """`epsilon` times the known updates' mean, turned round, so that the step's inner product with the honest
    one becomes negative (Xie et al., 2020, "Fall of empires").

    >>> known = np.array([[1.0, 0.0], [3.0, 4.0]], np.float32)
    >>> InnerProduct(0.5).update(known[0], known, np.random.default_rng(0)).tolist()
    [-1.0, -1.0]
    """

    epsilon: float = 1.0

    def update(self, own: Vector, known: Known, rng: np.random.Generator) -> Vector:
        turned: Vector = np.float32(-self.epsilon) * known.mean(axis=0)
        return turned


@dataclass(frozen=True)
class NotANumber(Attack):
    """An update of NaN."""

    def update(self, own: Vector, known: Known, rng: np.random.Generator) -> Vector:
        return np.full_like(own, np.nan)
