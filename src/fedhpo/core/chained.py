"""A file of lines that are only ever appended, each with a digest of itself and of all lines before it.

It is for what must not be forgotten: unlike a `Journal`, whose steps can be done again, a file that is
damaged is refused. A last line that a crash cut short is dropped.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.journal import chained_lines, whole_lines, write_at
from fedhpo.core.run_errors import DamageError


class ChainedFile:
    """One process at a time holds it; without a path nothing is kept.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = ChainedFile(Path(folder.name) / "lines", "lines")
    >>> file.add({"a": 1})
    >>> file.close()
    >>> ChainedFile(Path(folder.name) / "lines", "lines").lines
    [{'a': 1}]
    >>> folder.cleanup()
    """

    def __init__(self, path: Path | None, what: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self.digest, self._end, self._descriptor = "", 0, -1
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise InputError(f"{what} {str(path)!r}: {error.strerror}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.lines, self.digest, self._end = read_chained(path)
        except BlockingIOError:
            self.close()
            raise InputError(f"{what} {path} is in use by another process: wait until it ends") from None
        except BaseException:
            self.close()
            raise

    def add(self, line: Any) -> None:
        """Append a line; it is on disk when this returns."""
        found = json.loads(json.dumps(line))
        if self._descriptor >= 0:
            text, digest = chained_lines(self.digest, [found])
            write_at(self._descriptor, text, self._end)
            self.digest, self._end = digest, self._end + len(text)
        self.lines.append(found)

    def close(self) -> None:
        """Let the next process in."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_chained(path: Path) -> tuple[list[dict[str, Any]], str, int]:
    """All lines, the last digest, and where the whole lines end; damage is an error."""
    content = path.read_bytes()
    *lines, cut_short = content.split(b"\n")
    found = list(whole_lines(lines, ""))
    if len(found) < len(lines):
        raise DamageError(
            path,
            f"line {len(found) + 1} is not as it was written",
            "bring the file back from a copy: what it held must not be forgotten",
        )
    return [line for line, _ in found], found[-1][1] if found else "", len(content) - len(cut_short)
