"""The checkpoint files of a run: one per trial, named by trial and event."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from fedhpo.core.digests import digest
from fedhpo.core.run_errors import DamageError, RunError, trouble_at
from fedhpo.protocol.federation import TrialState
from fedhpo.protocol.state_file import parse_state, write_state
from fedhpo.run.record import StateFile


class Checkpoints:
    """Writes, reads and clears state files. Only the record says which of them are valid."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, trial: int, event: int, state: TrialState) -> StateFile:
        """Write a state durably to disk; return what the record stores about the file."""
        name = f"trial-{trial}-event-{event}.safetensors"
        path = self.directory / name
        try:
            with trouble_at(path, "cannot write the checkpoint"):
                self.directory.mkdir(exist_ok=True)
                data = write_state(path, state)
                return StateFile(name, len(data), digest(data).hex())
        except BaseException:
            # What lies around half-written would keep a full disk full.
            path.with_name(name + ".part").unlink(missing_ok=True)
            raise

    def read(self, file: StateFile) -> TrialState:
        """Read a state; raise if the file has changed since it was written."""
        path = self._inside(file.name)
        with trouble_at(path, "cannot read the checkpoint"):
            data = path.read_bytes()
            if not _is(data, file):
                raise DamageError(path, "it is not as it was written", "open the run again")
            return parse_state(data)

    def damaged(self, files: Iterable[StateFile]) -> dict[Path, str]:
        """The damaged files, each with a description of the damage."""
        found = {}
        for file in files:
            path = self._inside(file.name)
            try:
                whole = _is(path.read_bytes(), file)
            except OSError as error:
                found[path] = "is missing" if isinstance(error, FileNotFoundError) else str(error.strerror)
            else:
                if not whole:
                    found[path] = "is damaged"
        return found

    def delete(self, names: Collection[str]) -> None:
        """Delete files that the record no longer names."""
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


def _is(data: bytes, file: StateFile) -> bool:
    return len(data) == file.bytes and digest(data).hex() == file.digest
