"""What can go wrong with a run, said so that the user can put it right."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from fedhpo.errors import FedhpoError


class RunError(FedhpoError):
    """A run cannot be opened, read or written; the message gives the path and the reason."""


class ReplayError(RunError):
    """A call differs from the one recorded under the same event number."""


class BudgetError(FedhpoError):
    """A charge would exceed the budget."""


@contextmanager
def trouble_at(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of the file system and of SQLite into a `RunError` that names the path.

    >>> with trouble_at(Path("runs/a"), "cannot write"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    ...
    fedhpo.run.errors.RunError: cannot write runs/a: No space left on device
    """
    try:
        yield
    except OSError as error:
        raise RunError(f"{doing} {path}: {error.strerror or error}") from error
    except (sqlite3.Error, SafetensorError) as error:
        raise RunError(f"{doing} {path}: {error}") from error
