"""Tables by name: those that come with fedhpo, or any file."""

from __future__ import annotations

from pathlib import Path

from fedhpo.core.errors import unknown_name
from fedhpo.research.tables.curve_table import CurveTable

#: Where tables lie that come with fedhpo; their recipes are in `docs/tables.md`.
DIRECTORY = Path(__file__).parent / "data"
SUFFIX = ".table"


def shipped_tables() -> dict[str, Path]:
    """The tables that come with fedhpo, by name."""
    return {path.stem: path for path in sorted(DIRECTORY.glob(f"*{SUFFIX}"))}


def load_table(name: str | Path) -> CurveTable:
    """A table by its name, or by its file.

    >>> load_table("cifar11.table")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: cifar11.table: No such file or directory
    """
    shipped = shipped_tables()
    if str(name) in shipped:
        return CurveTable.load(shipped[str(name)])
    path = Path(name)
    if not path.exists() and path.suffix != SUFFIX and path.parent == Path("."):
        raise unknown_name("table", str(name), [*shipped, f"a file such as my{SUFFIX}"])
    return CurveTable.load(path)
