"""Settings of dataclasses, checked against their annotations, before anything else happens."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.moved import kept_name

_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    NoneType: "None",
    Mapping: "a mapping",
    Sequence: "a list",
}


def check_settings(settings: Any) -> None:
    """Refuse fields whose value is not of the type that they are annotated with; call it first.

    NumPy's numbers become Python's, true and false are no numbers, and numbers are finite. Types other than
    numbers, strings, lists, mappings, choices of them and dataclasses are not looked at.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Halving:
    ...     trials: int | None = None
    ...     def __post_init__(self):
    ...         check_settings(self)
    >>> Halving(np.int64(3))
    Halving(trials=3)
    >>> Halving("3")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: trials must be a whole number or None, not '3'
    """
    for name, kinds in _checked_fields(cast(Hashable, type(settings))):
        given = getattr(settings, name)
        value = plain_number(given)
        if Sequence in kinds and isinstance(value, np.ndarray):
            value = value.tolist()
        if value is not given:
            object.__setattr__(settings, name, value)
        _check(name, value, kinds)


def plain_number(value: Any) -> Any:
    """NumPy's scalars (and arrays of one number without an axis) as Python's; anything else as it is."""
    scalar = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value.item() if scalar else value


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`, as Python's own, or an `InputError`.

    >>> whole_number("rounds", np.int64(3))
    3
    """
    found = plain_number(value)
    if isinstance(found, bool) or not isinstance(found, int) or found < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {shown(value)}")
    return found


def shown(value: Any) -> str:
    """A value as messages show it, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@cache
def _checked_fields(kind: Hashable) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """The fields that can be checked, with the types that each may have."""
    hints = get_type_hints(kind)
    found = ((f.name, _kinds(hints[f.name])) for f in fields(kind) if f.init)  # type: ignore[arg-type]
    return tuple((name, kinds) for name, kinds in found if kinds)


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The members of a union; none where one of them cannot be checked."""
    members = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    found: list[Any] = []
    for member in members:
        origin = get_origin(member) or member
        if origin in (tuple, list, Sequence):
            found.append(Sequence)
        elif origin in (dict, Mapping):
            found.append(Mapping)
        elif origin is Literal or origin in _WORDS or is_dataclass(origin):
            found.append(member if origin is Literal else origin)
        else:
            return ()
    return tuple(found)


def _check(name: str, value: Any, kinds: Sequence[Any]) -> None:
    if any(_fits(value, kind) for kind in kinds):
        return
    literals = [one for kind in kinds if get_origin(kind) is Literal for one in get_args(kind)]
    if literals and isinstance(value, str) and all(k is NoneType or get_origin(k) is Literal for k in kinds):
        raise unknown_name(name, value, map(str, literals))
    words = [_said(kind) for kind in kinds]
    if float in kinds and isinstance(value, float):
        words = [word.replace("a number", "a finite number") for word in words]
    allowed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    raise InputError(f"{name} must be {allowed}, not {shown(value)}")


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str | int) and value in get_args(kind)
    if kind in (int, float) and isinstance(value, bool):
        return False
    if kind is float:
        return isinstance(value, int | float) and (
            abs(value) < 1e308 if isinstance(value, int) else math.isfinite(value)
        )
    if kind is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return isinstance(value, kind)


def _said(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(repr, get_args(kind)))
    return _WORDS.get(kind) or f"of type {kind.__name__}"


def is_number(value: object) -> bool:
    """Whether a value is a finite number, so that it may be compared with others."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return isinstance(value, int) or bool(np.isfinite(value))


def settings_of(part: Any) -> dict[str, Any]:
    """The settings of a sampler, schedule, policy or the like, JSON-able, with its `name`.

    A run keeps them, and is resumed only with the same ones. They are what its `to_dict` says if it has one;
    else the fields of a dataclass, or the public attributes of any other object. A value that is no plain
    data goes by the name of its class or function, never by its `repr`, which may hold an address.

    >>> class Mine:
    ...     def __init__(self, share): self.share, self.rule, self._cache = share, max, {}
    >>> settings_of(Mine(0.5))
    {'name': 'Mine', 'share': 0.5, 'rule': 'max'}
    """
    name = {"name": kept_name(type(part))[1].rpartition(".")[2]}
    if hasattr(part, "to_dict"):
        return {**name, **part.to_dict()}
    if is_dataclass(part):
        own = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
    else:
        own = {key: value for key, value in getattr(part, "__dict__", {}).items() if not key.startswith("_")}
    return name | {key: _plain(value) for key, value in own.items()}


def _plain(value: Any) -> Any:
    """A value as plain data; what is none by its name, or its settings."""
    value = plain_number(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, type) or hasattr(value, "__name__"):
        return str(value.__name__)
    return settings_of(value) if hasattr(value, "to_dict") or is_dataclass(value) else type(value).__name__
