"""Which files belong to installed libraries, rather than to the user."""

from __future__ import annotations

import csv
import sys
import sysconfig
from functools import cache
from pathlib import Path

_PLACES = [
    Path(path).resolve()
    for name, path in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
]
_FEDHPO = Path(__file__).resolve().parents[2]
#: Where systems put libraries, some without the list of their files.
_LIBRARIES = ("site-packages", "dist-packages")


@cache
def is_installed(file: Path) -> bool:
    """Whether a file is of Python, an installed library or fedhpo.

    Environments may lie in layers: a library can be in a directory that a `.pth` file or `PYTHONPATH` adds.
    There it is known by its metadata, which lists its files. A project that is installed to be edited is
    listed nowhere, and is the user's own.
    """
    path = file.resolve()
    if path.is_relative_to(_FEDHPO) or any(path.is_relative_to(place) for place in _PLACES):
        return True
    on_path = {Path(entry).resolve() for entry in sys.path if entry}
    return any(
        place.name in _LIBRARIES or path.relative_to(place).as_posix() in _listed(place)
        for place in path.parents
        if place in on_path
    )


@cache
def _listed(place: Path) -> frozenset[str]:
    """All files that the metadata of libraries in a directory names."""
    found: set[str] = set()
    for record in place.glob("*.dist-info/RECORD"):
        try:
            with record.open(encoding="utf-8", newline="") as lines:
                found.update(line[0] for line in csv.reader(lines) if line)
        except (OSError, ValueError, csv.Error):  # as good as not there
            continue
    return frozenset(found)
