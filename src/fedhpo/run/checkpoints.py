"""The checkpoint files of a run: one per trial, named by trial and event."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fedhpo.federation.checkpoint import read_state, write_state
from fedhpo.federation.protocol import TrialState
from fedhpo.run.errors import RunError, trouble_at


class Checkpoints:
    """Writes, reads and clears state files; which of them count is said by the record alone."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, trial: int, event: int, state: TrialState) -> tuple[str, int]:
        """Put a state safely on disk; returns the file's name and its size."""
        name = f"trial-{trial}-event-{event}.safetensors"
        path = self.directory / name
        try:
            with trouble_at(path, "cannot write the checkpoint"):
                self.directory.mkdir(exist_ok=True)
                write_state(path, state)
                return name, path.stat().st_size
        except BaseException:
            # What lies around half-written would keep a full disk full.
            path.with_name(name + ".part").unlink(missing_ok=True)
            raise

    def read(self, name: str) -> TrialState:
        """The state in a file."""
        path = self._inside(name)
        try:
            with trouble_at(path, "cannot read the checkpoint"):
                return read_state(path)
        except RunError as error:
            raise RunError(
                f"{error}; without this file the run trains again from the record: delete it"
            ) from error

    def whole(self, name: str, size: int) -> bool:
        """Whether the file is there in full."""
        path = self._inside(name)
        return path.is_file() and path.stat().st_size == size

    def delete(self, names: Collection[str]) -> None:
        """Delete files that the record does not name any more."""
        for name in names:
            self._inside(name, link=True)  # of a link only the link itself is deleted
            with trouble_at(self.directory / name, "cannot delete the checkpoint"):
                (self.directory / name).unlink(missing_ok=True)

    def _inside(self, name: str, link: bool = False) -> Path:
        """The file of that name; a record from elsewhere must not reach beyond its own directory."""
        path = self.directory / name
        plain = Path(name).name == name and name not in ("", "..")
        if not plain or self.directory.is_symlink() or (path.is_symlink() and not link):
            raise RunError(
                f"the record beside {self.directory} names the checkpoint {name!r}, which lies elsewhere: "
                "fedhpo did not write that"
            )
        return path

    def clear_strays(self, named: Collection[str]) -> None:
        """Delete what an interrupted checkpoint left behind."""
        if self.directory.is_dir():
            self.delete([file.name for file in self.directory.iterdir() if file.name not in named])
