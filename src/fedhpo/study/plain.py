"""What a study may hold: tables, lists, strings, numbers, true and false, as JSON has them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from fedhpo.errors import InputError
from fedhpo.study.words import shown

#: Tables within tables and lists within lists: no study needs more.
_DEEPEST = 16
#: What 64 bits hold: larger whole numbers fit neither NumPy nor SQLite.
_LARGEST = 2**63 - 1


def check_plain(given: Any) -> None:
    """Refuse, with its key, what is not plain: dates, objects, tables without end.

    >>> check_plain({"budget": {"rounds": datetime.date(2024, 1, 1)}})
    Traceback (most recent call last):
    ...
    fedhpo.errors.InputError: budget.rounds = 2024-01-01: must not be a date or a time; ...
    """
    if not isinstance(given, Mapping):
        raise InputError(f"a study must be a table of sections, found {shown(given)}")
    _check(given, "", 0)


def _check(value: Any, path: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise InputError(f"{path[:80]}...: its values are nested too deeply (more than {_DEEPEST} levels)")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InputError(f"{path or 'study'}: the key {shown(key)} must be a string")
            _check(inner, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            _check(inner, f"{path}[{place}]", depth + 1)
    elif isinstance(value, datetime.date | datetime.time):
        raise InputError(
            f"{path} = {value}: must not be a date or a time; write a number, a string, true, false, a list "
            "or a table"
        )
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise InputError(f"{path} = {shown(value)}: must be at most 2**63 - 1")
    elif not isinstance(value, str | int | float | bool | None):
        raise InputError(
            f"{path} = {shown(value)}: must be a number, a string, true, false, a list or a table, not "
            f"{type(value).__name__}"
        )
