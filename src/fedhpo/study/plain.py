"""A study's tables in one form, however they were given: what comes back from a run's record is the same."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.phrasing import shown
from fedhpo.space.config import frozen_value

#: Levels of tables and lists in each other: no study needs more. Larger numbers fit no 64 bits.
_DEEPEST, _LARGEST = 16, 2**63 - 1


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same tables with their keys in alphabetical order, lists as lists, numbers as plain numbers.

    The record of a run holds a study as JSON with sorted keys. In this form a study is the same before and
    after, so that nothing can depend on the order in which a file has its keys. What JSON cannot hold is
    refused here: dates, `nan` and `inf`.

    >>> plain({"seed": 0, "data": {"name": "digits", "clients": 50}})
    {'data': {'clients': 50, 'name': 'digits'}, 'seed': 0}
    >>> plain({"data": {"since": datetime.date(2024, 1, 1)}})
    Traceback (most recent call last):
    ...
    fedhpo.InputError: data.since = 2024-01-01: must be no date or time; write it as a string in quotes
    """
    if not isinstance(given, Mapping):
        raise InputError(f"a study must be a table of sections, found {shown(given)}")
    found: dict[str, Any] = _plain(given, "", 0)
    return found


def _plain(value: Any, where: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise InputError(f"{_short(where)}: tables and lists stand in each other more than {_DEEPEST} deep")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{where or 'study'}: a key must be a string, found {shown(key)}")
        return {
            key: _plain(value[key], f"{where}.{key}" if where else key, depth + 1) for key in sorted(value)
        }
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{place}]", depth + 1) for place, item in enumerate(value)]
    if isinstance(value, datetime.date | datetime.time):
        raise InputError(f"{where} = {value}: must be no date or time; write it as a string in quotes")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise InputError(f"{where} = {shown(value)}: must be at most 2**63 - 1")
    return frozen_value(where, value)


def _short(where: str) -> str:
    """The beginning of a key that may be very long."""
    return where if len(where) <= 60 else f"{where[:57]}..."
