"""Standard output of commands that print one object, or a table, for another program.

A user's training function, app or module may print at any time, in this process, in a worker, or from C. Then
standard output is the command's alone, and whatever else is printed goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

_kept: TextIO | None = None


@contextlib.contextmanager
def reserved(*, process: bool) -> Iterator[None]:
    """Keep standard output for `standard_output`; with `process`, for child processes and C code too."""
    global _kept
    before = _kept, sys.stdout
    _kept = sys.stdout
    if process:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or not a file
            sys.stdout.flush()
            own = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="backslashreplace")
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # stays so: the process is about to end
            _kept = own
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError) if sys.exc_info()[0] else contextlib.nullcontext():
            standard_output().flush()
        _kept, sys.stdout = before


def standard_output() -> TextIO:
    """Where the command's own output goes."""
    return sys.stdout if _kept is None else _kept


def print_json(value: Any, indent: int | None = None) -> None:
    """Print the one object of a command."""
    print(json.dumps(value, indent=indent), file=standard_output(), flush=True)
