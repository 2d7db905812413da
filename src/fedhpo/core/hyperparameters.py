"""Checks of hyperparameters, which local training and the server step share."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from fedhpo.core.errors import InputError, unknown_name

T = TypeVar("T")


def parse(kind: type[T], scope: str, values: Mapping[str, Any]) -> T:
    """Build a dataclass of hyperparameters, naming an unknown one and listing the known.

    >>> from fedhpo.engine.hyperparameters import Local
    >>> parse(Local, "client", {"lr": 0.5, "batch_size": 8}).lr
    0.5
    >>> parse(Local, "client", {"learning_rate": 0.5})
    Traceback (most recent call last):
    ...
    fedhpo.InputError: unknown client hyperparameter 'learning_rate' (write lr); known: accumulate, ...
    """
    given = tuple((name, type(value), value) for name, value in values.items())
    if kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        with contextlib.suppress(TypeError):  # a value that cannot be hashed
            found: T = _kept(kind, scope, given)  # type: ignore[arg-type]  # a round asks for each client
            return found
    return _parsed(kind, scope, given)


def _parsed(kind: type[T], scope: str, values: tuple[tuple[str, type, Any], ...]) -> T:
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    for name, _, _ in values:
        if name not in known:
            raise unknown_name(f"{scope} hyperparameter", name, known)
    return kind(**{name: value for name, _, value in values})


_kept = lru_cache(maxsize=4096)(_parsed)


def in_range(name: str, value: Any, low: float, high: float) -> None:
    """Refuse a number outside of [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(f"{name} must be a number in [{low:g}, {high:g}], not {value!r}")
