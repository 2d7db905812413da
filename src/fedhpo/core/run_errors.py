"""What can go wrong with a run, said so that the user can put it right."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from fedhpo.core.errors import FedhpoError


class RunError(FedhpoError):
    """A run cannot be opened, read or written; the message gives the path and the reason."""

    __module__ = "fedhpo.errors"


class NotBegunError(RunError):
    """Nothing was recorded yet: the run was stopped or killed before it began."""

    __module__ = "fedhpo.errors"


class OtherVersionError(RunError):
    """The run belongs to another version of fedhpo; the message names it."""

    __module__ = "fedhpo.errors"


class DamageError(RunError):
    """A file is not as it was written; the message names the file, and what to do."""

    __module__ = "fedhpo.errors"

    def __init__(self, path: Path, found: object, remedy: str = "") -> None:
        remedy = remedy or "restore the run's directory from a copy, or begin again under another name"
        super().__init__(f"{path} is damaged: {found}; {remedy}")


class ReplayError(RunError):
    """A call differs from the one recorded under the same event number."""

    __module__ = "fedhpo.errors"


class BudgetError(FedhpoError):
    """A charge would exceed the budget."""

    __module__ = "fedhpo.errors"


@contextmanager
def trouble_at(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of the file system and of SQLite into a `RunError` that names the path.

    >>> with trouble_at(Path("runs/a"), "cannot write"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    ...
    fedhpo.errors.RunError: cannot write runs/a: No space left on device
    >>> with trouble_at(Path("runs/a"), "cannot read"):
    ...     raise sqlite3.DatabaseError("database disk image is malformed")
    Traceback (most recent call last):
    ...
    fedhpo.errors.DamageError: runs/a is damaged: database disk image is malformed; restore ...
    """
    try:
        yield
    except OSError as error:
        raise RunError(f"{doing} {path}: {error.strerror or error}") from error
    except sqlite3.OperationalError as error:
        # SQLite's general error, or Python's own: what our statements name is not there, or text is not text.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR:
            raise DamageError(path, error) from error
        raise RunError(f"{doing} {path}: {error}") from error
    except (sqlite3.Error, SafetensorError, UnicodeDecodeError, OverflowError) as error:
        raise DamageError(path, error) from error
