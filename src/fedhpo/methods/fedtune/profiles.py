"""Which profiles a federation is expected to have: the distribution that a mixture is simulated with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import is_number
from fedhpo.data.container import Integers
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.methods.fedtune.dealing import shared_out


@dataclass(frozen=True)
class Profiles:
    """The share of clients in each cell, row by row, and where that comes from.

    `source` is "uniform" (nothing is known), "given" (somebody's guess) or "asked" (the clients told, with
    noise).

    >>> profiles = Profiles.given(Cells((0.2, 0.8), (50, 200)), [1, 1, 2, 4])
    >>> profiles.shares, profiles.counts(8).tolist()
    ((0.125, 0.125, 0.25, 0.5), [1, 1, 2, 4])
    """

    cells: Cells
    shares: Sequence[float]
    source: str = "uniform"

    def __post_init__(self) -> None:
        if len(self.shares) != len(self.cells):
            raise InputError(f"{len(self.shares)} shares for {len(self.cells)} cells: give one for each")
        if not all(is_number(share) and share >= 0 for share in self.shares) or not sum(self.shares) > 0:
            raise InputError(f"shares={list(self.shares)!r}; allowed: numbers of at least 0, not all 0")
        total = sum(self.shares)
        object.__setattr__(self, "shares", tuple(float(share) / total for share in self.shares))

    @classmethod
    def uniform(cls, cells: Cells) -> Profiles:
        """As many clients in each cell."""
        return cls(cells, (1.0,) * len(cells))

    @classmethod
    def given(cls, cells: Cells, shares: Sequence[float]) -> Profiles:
        """The user's own guess."""
        return cls(cells, tuple(shares), "given")

    def counts(self, clients: int) -> Integers:
        """How many of so many clients each cell has: as near to the shares as whole numbers are."""
        return shared_out(clients, np.array(self.shares), np.full(len(self.cells), clients))

    @property
    def held(self) -> list[int]:
        """The cells that some client is expected in."""
        return [cell for cell, share in enumerate(self.shares) if share > 0]

    def to_dict(self) -> dict[str, Any]:
        """The distribution that a table was made for."""
        return {"source": self.source, "shares": [round(share, 6) for share in self.shares]}
