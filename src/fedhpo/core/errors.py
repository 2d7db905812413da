"""Errors that fedhpo raises on purpose.

Everything that a user can put right is an `InputError`: its message names the argument or key,
what was found and what is allowed, and the command line shows it without a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from fedhpo.core.words import KEYS


class FedhpoError(Exception):
    """Base of all errors raised by fedhpo."""

    __module__ = "fedhpo"  # as users know it, also in tracebacks


class Terminated(KeyboardInterrupt):
    """SIGTERM asked to stop at once, as Ctrl-C does with a `KeyboardInterrupt`."""


class Concerns(StrEnum):
    """What an `InputError` concerns, where whoever passes it on must know."""

    RUN = "run"
    """The run's directory: not the study that is tuned there."""
    METHOD = "method"
    """The method, which the message names already."""
    STUDY = "study"
    """The study's file, which the message names already."""


class InputError(FedhpoError, ValueError):
    """Something the user gave is wrong; the message says what, and what is allowed."""

    __module__ = "fedhpo"  # as users know it, also in tracebacks

    def __init__(self, *message: object, concerns: Concerns | None = None) -> None:
        super().__init__(*message)
        self.concerns = concerns


class NothingToDrawError(InputError):
    """A figure that the run says too little for; its text says what is missing."""


class MissingExtraError(FedhpoError, ImportError):
    """An optional dependency is not installed; the message names the extra."""

    __module__ = "fedhpo.errors"

    def __init__(self, package: str, extra: str) -> None:
        way = f"in a clone of fedhpo, pip install -c constraints.txt -e '.[{extra}]'"
        super().__init__(f"{package} is needed here: {way}")


class WorkersUnavailable(FedhpoError):
    """Worker processes cannot do this work; the message says why."""

    __module__ = "fedhpo.errors"


#: Kinds of name that people bring from other tools.
_WORDED = ("key", "method", "type", "metric", "model", "hyperparameter")


def unknown_name(
    kind: str, name: object, known: Iterable[str], means: Mapping[str, str] | None = None
) -> InputError:
    """An `InputError` for a name that is not one of `known`, with the nearest one suggested.

    `means` are names that others use, each with ours. Words of other tools are answered with ours.

    >>> str(unknown_name("method", "hyperbnad", ["sha", "hyperband"]))
    "unknown method 'hyperbnad' (did you mean 'hyperband'?); known: hyperband, sha"
    """
    known = sorted(map(str, known))
    word = name.casefold() if isinstance(name, str) else ""
    meant, near = (means or {}).get(str(name)), nearest(name, known)
    near = meant or near
    hint = f" (did you mean {near!r}?)" if near else ""
    elsewhere = word in KEYS and any(one in kind for one in _WORDED)
    # A word of another tool is no misspelling, unless it is one of ours but for a letter or two.
    if elsewhere and not meant and (not near or _edit_distance(word, near.casefold()) > 2):
        hint = f" ({KEYS[word]})"
    found = repr(name)
    found = found if len(found) <= 80 else f"{found[:77]}..."
    return InputError(f"unknown {kind} {found}{hint}; known: {', '.join(known)}")


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that needs the fewest changes, if these are few, or that holds the other; case aside.

    Names that begin alike for most of their length are near too.

    >>> [nearest(name, ["fedex", "fedtune", "sha", "fedadam"]) for name in ("fedexx", "SHA", "adam", "x")]
    ['fedex', 'sha', 'fedadam', None]
    >>> nearest("resnet50", ["lstm", "resnet18_gn"])
    'resnet18_gn'
    """
    if not isinstance(name, str) or not 0 < len(name) <= 100:
        return None
    given = name.casefold()

    def changes(other: str) -> int | None:
        distance, allowed = _edit_distance(given, other.casefold()), max(1, round(0.4 * len(given)))
        inside = min(len(given), len(other)) >= 3 and (given in other.casefold() or other.casefold() in given)
        alike = next((i for i, (a, b) in enumerate(zip(given, other.casefold(), strict=False)) if a != b), 0)
        near = distance <= allowed or inside or alike >= max(4, 0.6 * len(given))
        return distance if near else None

    found = {other: count for other in known if (count := changes(other)) is not None}
    return min(found, key=lambda other: (found[other], other), default=None)


def _edit_distance(a: str, b: str) -> int:
    """Letters to put in, take out, replace, or exchange with their neighbour (Damerau, 1964)."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]
