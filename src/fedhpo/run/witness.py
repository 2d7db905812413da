"""A second, small file that says how far the record had come with what must not be done twice.

SQLite drops the end of a damaged write-ahead log without a word: the record is then as it was earlier. What
can be repeated is done again. A private release would be drawn a second time though charged once, and clients
that cannot repeat themselves would be trained from another state: so those are noted here as well.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from fedhpo.core.digests import digest
from fedhpo.core.journal import write_at
from fedhpo.core.run_errors import RunError, trouble_at

_LENGTH = 80


class Witness:
    """Two numbers on disk: of the last event noted, and of the last one that was given its result later.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> witness = Witness(Path(folder.name) / "witness")
    >>> witness.note(7, 5)
    >>> Witness(witness.path).noted()
    (7, 5)
    >>> folder.cleanup()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def note(self, event: int, settled: int) -> None:
        """Write the numbers atomically: a kill leaves the old ones or these."""
        text = f"{event} {settled}"
        line = f"{text} {digest(text.encode()).hex()}".ljust(_LENGTH - 1) + "\n"
        with trouble_at(self.path, "cannot write"):
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            before = os.pread(self._descriptor, _LENGTH, 0)
            write_at(self._descriptor, line.encode(), 0, before)

    def noted(self) -> tuple[int, int] | None:
        """The numbers; None if the file is missing or damaged."""
        try:
            event, settled, found = self.path.read_bytes().decode("ascii").split()
            good = digest(f"{event} {settled}".encode()).hex() == found
            return (int(event), int(settled)) if good else None
        except (OSError, ValueError):
            return None

    def check(self, last: int, settled: int) -> None:
        """Refuse a record that ends before the noted event."""
        noted = self.noted()
        if noted is None:
            if self.path.exists() and self.path.stat().st_size:  # a kill leaves it empty at worst
                warnings.warn(f"{self.path} is damaged: it is written again from the record", stacklevel=5)
        elif last < noted[0] or settled < noted[1]:
            raise RunError(
                f"the record in {self.path.parent} has lost its end: it holds {last} events, "
                f"{self.path.name} knows of {noted[0]}; what is lost cannot be repeated (private releases, "
                "or rounds of clients that do not repeat themselves): begin again under another name. Older "
                "copies of the directory help only where nothing in it is private: they would release again"
            )

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
