"""`Origin`: the study file that a run comes from, which the run keeps beside what `tune` was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Origin:
    """A study as a run keeps it: all of it, as it was written, and what was set aside or said of it."""

    study: Mapping[str, Any] | None = None
    text: str | None = None
    beside: Mapping[str, Any] | None = None


_ORIGIN: ContextVar[Origin | None] = ContextVar("the origin of the next run", default=None)


@contextmanager
def comes_from(origin: Origin) -> Iterator[None]:
    """The next call of `fedhpo.tune` in this block comes from there; those that it makes itself do not.

    >>> with comes_from(Origin(text="seed = 1")):
    ...     taken_origin().text, taken_origin().text
    ('seed = 1', None)
    """
    token = _ORIGIN.set(origin)
    try:
        yield
    finally:
        _ORIGIN.reset(token)


def taken_origin() -> Origin:
    """Where this call comes from; asked once, as a method may call `tune` again."""
    origin = _ORIGIN.get()
    _ORIGIN.set(None)
    return origin or Origin()
