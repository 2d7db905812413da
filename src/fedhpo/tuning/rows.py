"""Rows of named values, as results show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fedhpo.core.errors import MissingExtraError
from fedhpo.core.notebook import shown, table_as_html

if TYPE_CHECKING:
    import pandas

Row = TypeVar("Row", bound=Mapping[str, Any], covariant=True)


class Table(Sequence[Row]):
    """Rows of named values; prints as a table, and turns into a pandas frame where pandas is there.

    >>> print(Table([{"trial": 0, "score": 0.5}, {"trial": 1, "score": 0.75}]))
    trial  score
        0    0.5
        1   0.75
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)

    @property
    def columns(self) -> list[str]:
        """The names, in order of appearance."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def to_pandas(self) -> pandas.DataFrame:
        """A `pandas.DataFrame`."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("pandas", "pandas") from None

        return pandas.DataFrame(self._rows, columns=self.columns)

    def __str__(self) -> str:
        lines = [self.columns, *([shown(row.get(name)) for name in self.columns] for row in self._rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        return "\n".join(
            "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines
        )

    def __repr__(self) -> str:
        return f"<Table: {len(self)} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        names = self.columns
        return table_as_html(names, ([row.get(name) for name in names] for row in self._rows), len(self))
