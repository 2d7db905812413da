"""The runs below a directory: found anew at each look, read only as far as they changed."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.run.lock import is_held
from fedhpo.run.run import LOCK, RECORD, RESULT
from fedhpo.ui.summary import summary
from fedhpo.ui.watched import Watched

#: How deep below the directory runs are looked for, and how many are found.
_DEPTH, _MOST = 3, 2000
#: Runs whose events are kept in memory.
_KEPT = 8

#: What changes when a run does.
Stamp = tuple[Any, ...]


def stamp_of(path: Path) -> Stamp:
    """Sizes and times of the run's files, and whether a process holds it: no file is opened to be read."""
    found: list[Any] = [is_held(path / LOCK)]
    for name in (RECORD, f"{RECORD}-wal", RESULT):
        try:
            told = os.stat(path / name)
            found.append((told.st_mtime_ns, told.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def _legible(name: str) -> str:
    """A name as text: bytes of a file name that are not UTF-8 are written out.

    >>> _legible("a\\udcff/b")
    'a\\\\xff/b'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class Runs:
    """All runs below a directory, or the one run that the directory is."""

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise InputError(f"DIR = {str(directory)!r}: no such directory")
        self.directory = directory.resolve()
        self._lock = threading.Lock()
        self._watched: OrderedDict[str, Watched] = OrderedDict()
        self._summaries: dict[str, tuple[Stamp, dict[str, Any]]] = {}

    def paths(self) -> dict[str, Path]:
        """Each run's name, its path from the directory, and where it is. Links are not followed."""
        if (self.directory / RECORD).is_file():
            return {_legible(self.directory.name): self.directory}
        found: dict[str, Path] = {}
        for folder, inner, files in os.walk(self.directory):
            path = Path(folder)
            if RECORD in files and path != self.directory:
                name = _legible(path.relative_to(self.directory).as_posix())
                while name in found:  # two names may read the same
                    name += "'"
                found[name] = path
                inner.clear()  # a run holds no runs
            elif len(path.relative_to(self.directory).parts) >= _DEPTH:
                inner.clear()
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            if len(found) >= _MOST:
                break
        return found

    def path(self, name: str) -> Path:
        """Where a run is, by the name that the list gives it; nothing else can be reached."""
        found = self.paths().get(name)
        if found is None:
            raise InputError(f"no run {name!r} below {self.directory}")
        return found

    def watched(self, name: str) -> Watched:
        """A run whose events are kept, so that only new ones are read."""
        path = self.path(name)
        with self._lock:
            one = self._watched.setdefault(name, Watched(path))
            self._watched.move_to_end(name)
            while len(self._watched) > _KEPT:
                self._watched.popitem(last=False)
        return one

    def stamp(self, name: str | None = None) -> Stamp:
        """What changes when a run does; without a name, when any does."""
        if name is not None:
            return stamp_of(self.path(name))
        return tuple((name, stamp_of(path)) for name, path in self.paths().items())

    def listed(self) -> list[dict[str, Any]]:
        """A line for each run, the newest first; of one that cannot be read its name and why."""
        lines = []
        paths = self.paths()
        for name, path in paths.items():
            stamp = stamp_of(path)
            known = self._summaries.get(name)
            if known is None or known[0] != stamp or known[1]["status"] == "damaged":  # may be put right
                known = stamp, summary(name, path, self.watched)
                self._summaries[name] = known
            lines.append(known[1])
        for gone in self._summaries.keys() - paths.keys():
            del self._summaries[gone]
        return sorted(lines, key=lambda line: -(line["created"] or 0.0))
