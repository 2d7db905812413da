"""A journal of steps: what was done is kept, so that whoever is killed goes on where it was.

A line is a pair of JSON: what it holds, and a digest of that and of the line before. The privacy ledgers
(`fedhpo.privacy.journal`) are made of the same lines and write them in the same way.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError


class Journal:
    """Lines of JSON in a file; the first says what they are about, and must be the same when it goes on.

    A last line that a crash cut short is dropped. From a damaged line on, all are dropped with a warning, to
    be done again. Without a path nothing is kept.
    """

    def __init__(self, path: str | Path | None, about: Mapping[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self._lines: list[Any] = []
        self._chain, self._end = "", 0
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
        text, self._chain = chained_lines("", [head, *self._lines])
        self._end = len(text)
        draft.write_bytes(text)
        draft.replace(self._path)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._lines)

    def add(self, lines: Sequence[Any]) -> None:
        """Append lines; they are on disk when this returns, and none of them if it raises."""
        if self._path is not None and lines:
            text, chain = chained_lines(self._chain, lines)
            descriptor = os.open(self._path, os.O_RDWR)
            try:
                write_at(descriptor, text, self._end)
            finally:
                os.close(descriptor)
            self._chain = chain
            self._end += len(text)
        self._lines += lines


def chained_lines(before: str, lines: Sequence[Any]) -> tuple[bytes, str]:
    """The lines as they go into a file behind a line with the digest `before`, and the last one's digest.

    >>> text, last = chained_lines("", ["a", "b"])
    >>> [line for line, _ in whole_lines(text.splitlines(), "")]
    ['a', 'b']
    >>> list(whole_lines(text.replace(b"a", b"c").splitlines(), ""))
    []
    """
    found = []
    for line in lines:
        before = _chained(before, line)
        found.append(json.dumps([line, before]) + "\n")
    return "".join(found).encode(), before


def whole_lines(lines: Sequence[bytes], before: str) -> Iterator[tuple[Any, str]]:
    """What each line holds and its digest, up to the first one that is not as it was written."""
    for text in lines:
        try:
            line, stated = json.loads(text)
            before = _chained(before, line)
        except (ValueError, TypeError, RecursionError):
            return
        if stated != before:
            return
        yield line, before


def write_at(descriptor: int, data: bytes, end: int, torn: bytes = b"") -> None:
    """Put `data` at the end of a file in place of `torn`, on disk when this returns; else all is as it was.

    The kernel may write a part only, as on a full disk: the rest then fails, and the part is taken back.
    """
    try:
        written = 0
        while written < len(data):
            more = os.pwrite(descriptor, data[written:], end + written)
            if more <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += more
        os.ftruncate(descriptor, end + written)
        os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):  # what cannot be taken back is found by whoever reads the file next
            os.ftruncate(descriptor, end)
            if torn:
                os.pwrite(descriptor, torn, end)
            os.fsync(descriptor)
        raise


def _chained(before: str, line: Any) -> str:
    return digest(f"{before} {json.dumps(line)}".encode()).hex()


def _whole_lines(path: Path) -> list[Any]:
    """What the lines hold, up to the first one that is not as it was written."""
    *lines, _cut_short = path.read_bytes().split(b"\n")
    found = [line for line, _ in whole_lines(lines, "")]
    if len(found) < len(lines):
        warnings.warn(
            f"{path} is damaged, or of another version: line {len(found) + 1} is not as it was written; it "
            "and what follows are done again",
            stacklevel=3,
        )
    return found
