"""A file of JSON lines that several processes write: under a lock, and on disk before anything else happens.

A line that a crash cut short counts as not written: whoever wrote it had not gone on.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.run_errors import trouble_at


@dataclass
class Held:
    """The file while it is locked: its lines (None for one that is not JSON), and where it ends."""

    lines: list[Any]
    _descriptor: int
    _end: int

    def append(self, line: Any) -> None:
        """Write a line; on disk when this returns."""
        written = json.dumps(line).encode() + b"\n"
        os.ftruncate(self._descriptor, self._end)
        os.pwrite(self._descriptor, written, self._end)
        os.fsync(self._descriptor)
        self._end += len(written)
        self.lines.append(line)


class Journal:
    """The file at a path; made, with its directory, when it is first locked.

    >>> import tempfile
    >>> journal = Journal(Path(tempfile.mkdtemp()) / "a.jsonl")
    >>> with journal.locked() as held:
    ...     held.append({"spent": 1.5})
    >>> journal.lines()
    [{'spent': 1.5}]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    def lines(self) -> list[Any]:
        """All lines so far; none where there is no file."""
        with trouble_at(self.path, "cannot read"):
            return _parsed(self.path.read_bytes()) if self.path.exists() else []

    @contextmanager
    def locked(self) -> Iterator[Held]:
        """The file, for this process alone; others wait."""
        with trouble_at(self.path, "cannot write"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
                yield Held(_parsed(content), descriptor, content.rfind(b"\n") + 1)
            finally:
                os.close(descriptor)


def _parsed(content: bytes) -> list[Any]:
    *lines, _cut_short = content.split(b"\n")
    return [_json(line) for line in lines]


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
