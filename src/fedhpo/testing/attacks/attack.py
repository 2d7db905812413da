"""What a hostile client may lie about; by itself an `Attack` is honest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.vectors import Vector

#: Updates, one a row.
Known = NDArray[np.float32]


class Attack:
    """What a hostile client sends in place of the truth: subclasses change what they lie about."""

    def update(self, own: Vector, known: Known, rng: np.random.Generator) -> Vector:
        """In place of its `own` update; `known` are updates of others that it has seen."""
        return own

    def size(self, rows: int) -> int:
        """In place of its number of rows, of every split."""
        return rows

    def score(self, loss: float, accuracy: float) -> tuple[float, float]:
        """In place of a model's loss and accuracy on its rows; NaN where it was not asked."""
        return loss, accuracy


@dataclass(frozen=True)
class Together(Attack):
    """Several lies at once, each after the one before it."""

    attacks: tuple[Attack, ...]

    def update(self, own: Vector, known: Known, rng: np.random.Generator) -> Vector:
        for attack in self.attacks:
            own = attack.update(own, known, rng)
        return own

    def size(self, rows: int) -> int:
        for attack in self.attacks:
            rows = attack.size(rows)
        return rows

    def score(self, loss: float, accuracy: float) -> tuple[float, float]:
        for attack in self.attacks:
            loss, accuracy = attack.score(loss, accuracy)
        return loss, accuracy
