"""A journal of steps: what was done is kept, so that whoever is killed goes on where it was."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError


class Journal:
    """Lines of JSON in a file; the first says what they are about, and must be the same when it goes on.

    Each line is a pair: what it holds, and a digest of that and of the line before. A last line that a crash
    cut short is dropped. From a damaged line on, all are dropped with a warning, to be done again. Without a
    path nothing is kept.
    """

    def __init__(self, path: str | Path | None, about: Mapping[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self._lines: list[Any] = []
        self._chain = ""
        head = json.loads(json.dumps(about))
        if self._path is None:
            return
        if self._path.is_file():
            first, *self._lines = _whole_lines(self._path) or [None]
            if first is not None and first != head:
                changed = sorted(key for key in {*first, *head} if first.get(key) != head.get(key))
                raise InputError(
                    f"{self._path} was begun with other settings ({', '.join(changed)}): "
                    "take another directory"
                )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".tmp")
        draft.write_text(self._text([head, *self._lines]), encoding="utf-8")
        draft.replace(self._path)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._lines)

    def add(self, lines: Sequence[Any]) -> None:
        """Append lines; they are on disk when this returns."""
        self._lines += lines
        if self._path is not None and lines:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._text(lines))
                file.flush()
                os.fsync(file.fileno())

    def _text(self, lines: Sequence[Any]) -> str:
        """The lines as they go into the file, after those before."""
        found = []
        for line in lines:
            self._chain = _chained(self._chain, line)
            found.append(json.dumps([line, self._chain]) + "\n")
        return "".join(found)


def _chained(before: str, line: Any) -> str:
    return digest(f"{before} {json.dumps(line)}".encode()).hex()


def _whole_lines(path: Path) -> list[Any]:
    """What the lines hold, up to the first one that is not as it was written."""
    *lines, _cut_short = path.read_bytes().split(b"\n")
    found: list[Any] = []
    chain = ""
    for number, text in enumerate(lines, start=1):
        try:
            line, stated = json.loads(text)
            chain = _chained(chain, line)
            whole = stated == chain
        except (ValueError, TypeError, RecursionError):
            whole = False
        if not whole:
            warnings.warn(
                f"{path} is damaged, or of another version: line {number} is not as it was written; it and "
                "what follows are done again",
                stacklevel=3,
            )
            break
        found.append(line)
    return found
