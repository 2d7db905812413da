"""Errors that fedhpo raises on purpose.

Everything that a user can put right is an `InputError`: its message names the argument or key,
what was found and what is allowed, and the command line shows it without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedhpoError(Exception):
    """Base of all errors raised by fedhpo."""


class Terminated(KeyboardInterrupt):
    """SIGTERM asked to stop at once, as Ctrl-C does with a `KeyboardInterrupt`."""


class InputError(FedhpoError, ValueError):
    """Something the user gave is wrong; the message says what, and what is allowed."""


class MissingExtraError(FedhpoError, ImportError):
    """An optional dependency is not installed; the message names the extra."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is needed here: pip install 'fedhpo[{extra}]'")


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """An `InputError` for a name that is not one of `known`, with the nearest one suggested.

    >>> str(unknown_name("method", "hyperbnad", ["sha", "hyperband"]))
    "unknown method 'hyperbnad' (did you mean 'hyperband'?); known: hyperband, sha"
    """
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return InputError(f"unknown {kind} {name!r}{hint}; known: {', '.join(known)}")
