"""Tables by name: those that come with fedhpo, or any file."""

from __future__ import annotations

from pathlib import Path

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.registry import installed
from fedhpo.research.tables.curve_table import CurveTable

#: Where tables lie that come with fedhpo; their recipes are in `docs/tables.md`.
DIRECTORY = Path(__file__).parent / "data"
SUFFIX = ".table"


def shipped_tables() -> dict[str, Path]:
    """The tables that come with fedhpo and with installed packages, by name.

    A package brings tables by an entry point `tables.NAME` in the group `fedhpo`: a function that returns the
    directory they lie in.
    """
    found = [
        DIRECTORY,
        *(Path(point.load()()) for points in installed("tables").values() for point in points),
    ]
    return {path.stem: path for where in found for path in sorted(where.glob(f"*{SUFFIX}"))}


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
        error = unknown_name("table", str(name), [*shipped, f"a file such as my{SUFFIX}"])
        more = "" if installed("tables") else "; fedhpo-papers brings more: `pip install ./papers` in a clone"
        raise InputError(f"{error}{more}")
    return CurveTable.load(path)
