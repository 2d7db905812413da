"""A journal of steps: what was done is kept, so that whoever is killed goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.errors import InputError


class Journal:
    """Lines of JSON in a file; the first says what they are about, and must be the same when it goes on.

    A last line that a crash cut short is dropped. Without a path nothing is kept.
    """

    def __init__(self, path: str | Path | None, about: Mapping[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self._lines: list[Any] = []
        head = json.loads(json.dumps(about))
        if self._path is None:
            return
        if self._path.is_file():
            first, *self._lines = list(_whole_lines(self._path)) or [None]
            if first is not None and first != head:
                changed = sorted(key for key in {*first, *head} if first.get(key) != head.get(key))
                raise InputError(
                    f"{self._path} was begun with other settings ({', '.join(changed)}): "
                    "take another directory"
                )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._write([head, *self._lines])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._lines)

    def add(self, lines: Sequence[Any]) -> None:
        """Append lines; they are on disk when this returns."""
        self._lines += lines
        if self._path is not None and lines:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())

    def _write(self, lines: Sequence[Any]) -> None:
        assert self._path is not None
        draft = self._path.with_suffix(".tmp")
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        draft.replace(self._path)


def _whole_lines(path: Path) -> Iterator[Any]:
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            return
        try:
            yield json.loads(line)
        except ValueError:
            return
