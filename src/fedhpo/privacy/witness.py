"""What is known of a ledger outside of its file: so that an older state of it, or a copy, is noticed.

A digest chain shows that a line was changed. It cannot show that the last lines are gone. So the number of a
ledger's lines and the digest of the last one are kept in a second place as well: in `FEDHPO_STATE`, or in
`fedhpo` below `XDG_STATE_HOME`, which is `~/.local/state` by default. Runs keep them too, each as of its own
last release. Whoever puts back the ledger, this directory and the runs together is not noticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fedhpo.core.digests import read_with_digest, write_with_digest
from fedhpo.core.run_errors import RunError, trouble_at


@dataclass(frozen=True)
class Position:
    """How far a ledger had come: its identity, the number of its lines, and the digest of the last one.

    >>> Position("a", 2, "9f").within(["1c", "9f", "e0"]), Position("a", 2, "9f").within(["1c"])
    (True, False)
    """

    ledger: str
    lines: int
    last: str

    def within(self, chain: Sequence[str]) -> bool:
        """Whether a file with these digests has come this far, through the same lines."""
        return self.lines <= len(chain) and (not self.lines or chain[self.lines - 1] == self.last)


def state_directory() -> Path:
    """Where witnesses are kept."""
    given = os.environ.get("FEDHPO_STATE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fedhpo"


def noted(identity: str, path: Path) -> tuple[Position, Path] | None:
    """What is known of a ledger, or of another one that was last seen at its path; with its file."""
    file = file_of(identity)
    with trouble_at(file, "cannot read"):
        known = _read(file) if file.exists() else None
    if known is None or known[1] != os.path.realpath(path):
        other = noted_at(path, but=identity)
        if other is not None:
            return other
    return None if known is None else (known[0], file)


def noted_at(path: Path, *, but: str | None = None) -> tuple[Position, Path] | None:
    """What is known of a ledger that was last seen at this path, other than `but`; with its file."""
    for file in _files():
        position, seen = _read(file)
        if seen == os.path.realpath(path) and position.ledger != but:
            return position, file
    return None


def note(position: Position, path: Path) -> None:
    """Keep how far a ledger has come; on disk when this returns."""
    file = file_of(position.ledger)
    try:
        write_with_digest(file, {**asdict(position), "path": os.path.realpath(path)})
    except RunError as error:
        raise RunError(
            f"{error}: the privacy ledger {path} needs a second place that knows how far it has come, "
            "so that an older state of it is noticed; free room there, or set FEDHPO_STATE to a directory "
            "that can be written"
        ) from error


def file_of(identity: str) -> Path:
    """The file that knows of a ledger."""
    return state_directory() / "ledgers" / f"{identity}.json"


def _files() -> Iterator[Path]:
    folder = state_directory() / "ledgers"
    with trouble_at(folder, "cannot read"):
        yield from sorted(folder.glob("*.json"))


def _read(file: Path) -> tuple[Position, str]:
    remedy = "delete it if you trust the ledger: it is written again at the ledger's next charge"
    facts = read_with_digest(file, remedy)
    return Position(facts["ledger"], facts["lines"], facts["last"]), facts["path"]
