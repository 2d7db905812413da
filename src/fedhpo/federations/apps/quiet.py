"""What an app prints, away from what a command prints."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def to_standard_error() -> Iterator[None]:
    """While this lasts, `print` writes to standard error: standard output is the command's own (`--json`)."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
