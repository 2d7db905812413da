"""Calls as canonical JSON: one text per value, and where two values first differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError

_ABSENT = object()


def canonical(value: Any) -> bytes:
    """The value as JSON with sorted keys, no spaces and exact floats.

    >>> canonical({"b": np.float64(0.1), "a": (1, np.int64(2))})
    b'{"a":[1,2],"b":0.1}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"a value for the record must be JSON-able: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} {value!r} is not")


def first_difference(old: Any, new: Any, where: str = "") -> tuple[str, str, str] | None:
    """Where two JSON values first differ, and both values there; None if they are equal.

    >>> first_difference({"lr": 0.1, "work": [1, 2]}, {"lr": 0.1, "work": [1, 3]})
    ('work[1]', '2', '3')
    >>> first_difference({"lr": 0.1}, {})
    ('lr', '0.1', 'nothing')
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            inner = f"{where}.{key}" if where else key
            found = first_difference(old.get(key, _ABSENT), new.get(key, _ABSENT), inner)
            if found:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            left = old[i] if i < len(old) else _ABSENT
            right = new[i] if i < len(new) else _ABSENT
            found = first_difference(left, right, f"{where}[{i}]")
            if found:
                return found
        return None
    # As text: NaN equals itself there, and 1 is not 1.0, nor True.
    shown_old, shown_new = _shown(old), _shown(new)
    return None if shown_old == shown_new else (where or "the value", shown_old, shown_new)


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, sort_keys=True)
