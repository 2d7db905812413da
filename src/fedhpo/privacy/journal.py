"""The file of a privacy ledger: lines that several processes write, and that nobody can take back unnoticed.

- A line is on disk, and known to the witness (`fedhpo.privacy.witness`), before anything else happens. Where
  either cannot be written, the file is as it was and the caller stops.
- Each line's digest covers the line before it: see `fedhpo.core.journal`. A line that was changed is refused,
  and so is a file that ends before the line that the witness knows of.
- A crash may cut the last line short. Whoever wrote it had not gone on, and the witness confirms that: the
  line is kept as `torn`, and the ledger counts it as a charge. Without a witness the file is refused, unless
  the line is its first one.
- Files of fedhpo 0.2.0 have no digests. They are read as they are; the next line that is written
  names the file and covers all lines before it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.digests import digest
from fedhpo.core.journal import chained_lines, whole_lines, write_at
from fedhpo.core.run_errors import DamageError, trouble_at
from fedhpo.privacy import witness
from fedhpo.privacy.witness import Position

#: What to do with a ledger that is not to be trusted any more.
REMEDY = (
    "an older copy of it would forget what was spent since: begin another file, with a total lowered by what "
    "these clients have spent"
)
#: Keys of the lines that are the journal's own: its identity, and a line that was cut short.
IDENTITY, TORN = "journal", "torn"


@dataclass
class Content:
    """What a file holds."""

    lines: list[Any]
    #: The digest of each line; those of fedhpo 0.2.0 have none, but for the last one, which stands for all.
    chain: list[str]
    identity: str | None
    torn: bytes
    #: Where the whole lines end.
    end: int

    @property
    def entries(self) -> list[Any]:
        """What counts: the lines, and what is left of one that was cut short."""
        return [*self.lines, *self._torn_line]

    @property
    def _torn_line(self) -> list[Any]:
        return [{TORN: self.torn.decode(errors="replace")}] if self.torn else []

    def followed_by(self, line: Any) -> list[Any]:
        """The lines to write so that this one stands in the file."""
        named = [] if self.identity else [{IDENTITY: secrets.token_hex(16)}]
        return [*named, *self._torn_line, line]

    @property
    def position(self) -> Position:
        """How far it has come."""
        return Position(self.identity or "", len(self.lines), self.chain[-1] if self.chain else "")


class Held:
    """The file while it is locked."""

    def __init__(self, path: Path, descriptor: int, content: Content) -> None:
        self._path, self._descriptor, self.content = path, descriptor, content

    def append(self, line: Any) -> None:
        """Write a line; on disk and known to the witness when this returns, else the file is as it was."""
        content = self.content
        added = content.followed_by(line)
        identity = content.identity or added[0][IDENTITY]
        before = content.chain[-1] if content.chain else ""
        text, _ = chained_lines(before, added)
        chain = [last for _, last in whole_lines(text.splitlines(), before)]
        position = Position(identity, len(content.lines) + len(added), chain[-1])
        write_at(self._descriptor, text, content.end, content.torn)
        try:
            witness.note(position, self._path)
        except BaseException:
            with suppress(OSError):  # else the line stays, and counts
                write_at(self._descriptor, content.torn, content.end)
            raise
        self.content = Content(
            content.lines + added, content.chain + chain, identity, b"", content.end + len(text)
        )


class Journal:
    """The file at a path; made, with its directory, when it is first locked.

    >>> import tempfile
    >>> journal = Journal(Path(tempfile.mkdtemp()) / "a.jsonl")
    >>> with journal.locked() as held:
    ...     held.append({"spent": 1.5})
    >>> journal.read().lines[-1]
    {'spent': 1.5}
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    def read(self) -> Content:
        """All lines so far; none where there is no file. Refuses a file that was changed."""
        with trouble_at(self.path, "cannot read"):
            try:
                descriptor = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                return self._checked(b"")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH)  # not in the middle of another's line
                return self._checked(_content(descriptor))
            finally:
                os.close(descriptor)

    @contextmanager
    def locked(self) -> Iterator[Held]:
        """The file, for this process alone; others wait."""
        with trouble_at(self.path, "cannot write"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if new:
                    _sync_directory(self.path.parent)
                yield Held(self.path, descriptor, self._checked(_content(descriptor)))
            finally:
                os.close(descriptor)

    def _checked(self, data: bytes) -> Content:
        """The content, if it is all that was ever written."""
        content = self._parsed(data)
        identity = content.identity
        known = witness.noted_at(self.path) if identity is None else witness.noted(identity, self.path)
        if known is not None and (known[0].ledger != identity or not known[0].within(content.chain)):
            raise self._rolled_back(content, *known)
        if content.torn and known is None and not (not content.lines and _begins(content.torn)):
            raise DamageError(
                self.path,
                f"line {len(content.lines) + 1} is cut short, and nothing in {witness.state_directory()} "
                "says whether it was a charge",
                REMEDY,
            )
        return content

    def _parsed(self, data: bytes) -> Content:
        *texts, torn = data.split(b"\n")
        end = len(data) - len(torn)
        old: list[Any] = []
        for text in texts:
            line = _object(text)
            if line is None:
                break
            old.append(line)
        covered = sum(len(text) + 1 for text in texts[: len(old)])
        before = digest(data[:covered]).hex() if old else ""
        found = list(whole_lines(texts[len(old) :], before))
        if len(old) + len(found) < len(texts):
            number = len(old) + len(found) + 1
            raise DamageError(self.path, f"line {number} is not as it was written", REMEDY)
        identity = found[0][0].get(IDENTITY) if found and isinstance(found[0][0], dict) else None
        if found and not (isinstance(identity, str) and identity.isalnum()):
            raise DamageError(self.path, f"line {len(old) + 1} does not name the ledger", REMEDY)
        chain = ["" for _ in old[1:]] + ([before] if old else []) + [last for _, last in found]
        return Content(old + [line for line, _ in found], chain, identity, torn, end)

    def _rolled_back(self, content: Content, known: Position, file: Path) -> DamageError:
        return DamageError(
            self.path,
            f"it has {len(content.lines)} lines and is not what {file} knows of: a ledger of {known.lines} "
            "lines was here. It was cut, emptied, replaced, or is an older copy",
            f"{REMEDY}. Only where the ledger that was here is about other clients, delete {file}",
        )


def _begins(torn: bytes) -> bool:
    """Whether a file holds no more than the beginning of its first line: then nobody had drawn on it."""
    first = json.dumps([{IDENTITY: ""}]).encode()[: -len(b'"}]')]
    length = min(len(torn), len(first))
    return torn[:length] == first[:length]


def _object(text: bytes) -> dict[str, Any] | None:
    """A line of fedhpo 0.2.0."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _content(descriptor: int) -> bytes:
    found = b""
    while more := os.pread(descriptor, 1 << 20, len(found)):
        found += more
    return found


def _sync_directory(path: Path) -> None:
    """So that a new file is still there after a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
