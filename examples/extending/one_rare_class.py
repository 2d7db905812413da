"""A partition of one's own: one class is held by few clients. Used from one_rare_class.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class OneRareClass:
    """Rows go to `clients` at random, but those of class `rare` only to the first `holders` of them."""

    clients: int
    rare: int = 0
    holders: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.holders <= self.clients:
            raise ValueError(f"holders must lie in 1..{self.clients}, not {self.holders}")

    def __call__(
        self, labels: NDArray[Any], rng: np.random.Generator, groups: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """The client of each row."""
        # Dealt like cards, so that nobody is left without rows.
        owners = rng.permutation(len(labels)) % self.clients
        rare = labels == self.rare
        owners[rare] = rng.integers(0, self.holders, int(rare.sum()))
        return owners.astype(np.int64)
