"""Digests that are kept beside what a run writes, so that damage is noticed when it is read.

They guard against damage, as of a disk: whoever may write the files can make new digests too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

#: Bytes of a digest.
SIZE = 16


def digest(data: bytes) -> bytes:
    """The digest of a file's content.

    >>> digest(b"weights").hex() == digest(b"weights").hex(), len(digest(b""))
    (True, 16)
    """
    return hashlib.sha256(data).digest()[:SIZE]  # of the standard library's the fastest on large files


def row_digest(table: str, row: Sequence[Any]) -> bytes:
    """The digest of a row: of its values, their types and the table that it stands in."""
    return digest(repr((table, *row)).encode())


def event_digest(previous: bytes, row: Sequence[Any]) -> bytes:
    """The digest of an event and, through that of the event before, of all events up to it.

    An event that is missing, or stands where another was, is noticed like one that was changed.

    >>> first = event_digest(b"", (1, "stop", b"{}", None, 0, 0.0))
    >>> second = (2, "stop", b"{}", None, 0, 0.0)
    >>> event_digest(first, second) == event_digest(b"", second)
    False
    """
    number, kind, call, result, *numbers = row
    lengths = len(call), None if result is None else len(result)
    found = hashlib.blake2b(previous, digest_size=SIZE)
    found.update(repr((number, kind, *lengths, *numbers)).encode())
    found.update(call)
    if result is not None:
        found.update(result)
    return found.digest()
