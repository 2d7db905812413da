"""An exception in one line: its type, its message, and the line of the user's code where it was raised."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from types import TracebackType

#: The longest message that is kept; torch's can hold whole tensors.
_LONGEST = 500
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")}
    | {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")}
)
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_LIBRARIES = re.compile(r"[/\\](site|dist)-packages[/\\](torch|numpy|scipy|sklearn|xgboost|flwr|ray)[/\\]")


def in_words(error: BaseException, *, full_path: bool = False) -> str:
    """`ValueError: too large (own.py:12, in train)`; without the place where no user code was involved.

    The file's name alone by default: what goes into a record must not depend on where a project lies.

    >>> try:
    ...     int("x")
    ... except ValueError as error:
    ...     in_words(error)[:58]
    "ValueError: invalid literal for int() with base 10: 'x' (<"
    """
    message = " ".join(str(error).split())
    message = message if len(message) <= _LONGEST else f"{message[:_LONGEST]}..."
    said = f"{type(error).__name__}: {message}" if message else type(error).__name__
    place = place_of(error.__traceback__, full_path=full_path)
    return f"{said} ({place})" if place else said


def place_of(trace: TracebackType | None, *, full_path: bool = False) -> str:
    """`own.py:12, in train`: the innermost line of the user's code; empty where there is none."""
    frames = [frame for frame in traceback.extract_tb(trace) if not _is_ours(frame.filename)]
    own = [frame for frame in frames if not _INSTALLED.search(frame.filename)]
    # A user's package may be installed as well: then whatever is not one of the usual libraries.
    own = own or [frame for frame in frames if not _LIBRARIES.search(frame.filename)]
    if not own:
        return ""
    name = own[-1].filename if full_path else os.path.basename(own[-1].filename)
    return f"{name}:{own[-1].lineno}, in {own[-1].name}"


def _is_ours(file: str) -> bool:
    """Whether a file belongs to fedhpo or to Python itself."""
    if file.startswith("<frozen"):
        return True
    standard = file.startswith(_STANDARD) and not _INSTALLED.search(file)
    return standard or os.path.abspath(file).startswith(_OURS)


def kind_and_place(error: BaseException) -> tuple[str, str]:
    """An exception without its message, which may quote a client's data: its kind, and the line of user code.

    >>> kind_and_place(KeyError("row 3 is 17.2"))
    ('KeyError', '')
    """
    return type(error).__name__, place_of(error.__traceback__)
