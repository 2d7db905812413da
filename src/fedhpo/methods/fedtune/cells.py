"""The cells of a table: indices x quantities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fedhpo.core.errors import InputError
from fedhpo.core.settings import is_number

#: The paper's 24 cells (Figure 8).
INDICES = (0.2, 0.4, 0.6, 0.8)
QUANTITIES = (100, 200, 400, 600, 800, 1000)


@dataclass(frozen=True)
class Cells:
    """Rows are indices, columns quantities, both ascending; cells are numbered row by row.

    >>> cells = Cells((0.2, 0.8), (100, 400, 800))
    >>> cells.profiles[4], cells.neighbours(4)
    ((0.8, 400), [1, 3, 5])
    """

    indices: Sequence[float] = INDICES
    quantities: Sequence[int] = QUANTITIES

    def __post_init__(self) -> None:
        for name, values in (("indices", self.indices), ("quantities", self.quantities)):
            listed = isinstance(values, list | tuple) and len(values) > 0
            ascending = listed and all(map(is_number, values)) and all(a < b for a, b in pairwise(values))
            if not ascending:
                raise InputError(f"{name}={values!r}; allowed: numbers in ascending order, at least one")
        if not 0 <= self.indices[0] <= self.indices[-1] <= 1:
            raise InputError(f"indices={self.indices!r}; allowed: numbers from 0 to 1")
        if self.quantities[0] < 1 or any(value != int(value) for value in self.quantities):
            raise InputError(f"quantities={self.quantities!r}; allowed: whole numbers of at least 1")
        object.__setattr__(self, "indices", tuple(float(value) for value in self.indices))
        object.__setattr__(self, "quantities", tuple(int(value) for value in self.quantities))

    def __len__(self) -> int:
        return len(self.indices) * len(self.quantities)

    @property
    def profiles(self) -> list[tuple[float, int]]:
        """Index and quantity of each cell."""
        return [(index, quantity) for index in self.indices for quantity in self.quantities]

    def neighbours(self, cell: int) -> list[int]:
        """The cells above, left, right and below."""
        row, column = divmod(cell, len(self.quantities))
        beside = ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column))
        return [
            r * len(self.quantities) + c
            for r, c in beside
            if 0 <= r < len(self.indices) and 0 <= c < len(self.quantities)
        ]

    def colour(self, cell: int) -> int:
        """0 or 1, as on a chessboard: neighbours differ."""
        return sum(divmod(cell, len(self.quantities))) % 2
