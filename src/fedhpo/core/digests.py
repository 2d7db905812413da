"""Digests that are kept beside what a run writes, so that damage is noticed when it is read.

They guard against damage, as of a disk: whoever may write the files can make new digests too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.canonical import canonical
from fedhpo.core.run_errors import DamageError, trouble_at

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


def write_with_digest(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts as a JSON file with their digest: the file is whole or as it was.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "facts.json"
    >>> write_with_digest(path, {"clients": 3})
    >>> read_with_digest(path, "delete it")
    {'clients': 3}
    >>> _ = path.write_text(path.read_text().replace("3", "4"))
    >>> read_with_digest(path, "delete it")
    Traceback (most recent call last):
    ...
    fedhpo.errors.DamageError: ...facts.json is damaged: it is not as it was written; delete it
    >>> folder.cleanup()
    """
    written = {**facts, "digest": digest(canonical(facts)).hex()}
    aside = path.with_name(path.name + ".part")
    with trouble_at(path, "cannot write"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with aside.open("w", encoding="utf-8") as file:
                file.write(json.dumps(written, indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise


def read_with_digest(path: Path, remedy: str) -> dict[str, Any]:
    """The facts that `write_with_digest` wrote; `remedy` is what to do if the file is damaged."""
    with trouble_at(path, "cannot read"):
        content = path.read_bytes()
    try:
        facts: dict[str, Any] = json.loads(content)
        stated = facts.pop("digest")
        whole = digest(canonical(facts)).hex() == stated
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise DamageError(path, "it is not as it was written", remedy)
    return facts
