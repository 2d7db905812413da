"""Spaces as the tables of a study file (TOML) or of JSON; `Space.from_dict` shows the form."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.space._continuous import Float
from fedhpo.space._discrete import Choice, Int, Ordinal
from fedhpo.space._hyperparameter import Hyperparameter
from fedhpo.space.config import SCOPES

KINDS: dict[str, type[Hyperparameter]] = {"float": Float, "int": Int, "choice": Choice, "ordinal": Ordinal}
RANGE = ("low", "high", "log", "default", "own", "when", "type")
KEYS: dict[str, tuple[str, ...]] = {
    "float": (*RANGE, "complement"),
    "int": RANGE,
    "choice": ("choices", "default", "when", "type"),
    "ordinal": ("values", "choices", "log", "default", "when", "type"),
}
#: What others call our keys.
MEANT = {
    "min": "low",
    "max": "high",
    "minimum": "low",
    "maximum": "high",
    "lower": "low",
    "upper": "high",
    "from": "low",
    "to": "high",
    "options": "choices",
    "categories": "choices",
    "scale": "log",
    "kind": "type",
}
ALL_KEYS = (*RANGE[:3], "complement", "choices", "values", "value", *RANGE[3:])


def read(data: Mapping[str, Any], path: str) -> dict[str, dict[str, Any]]:
    """The arguments of `Space` from tables by scope."""
    _check_table(data, path)
    for scope in data:
        if scope not in SCOPES:
            raise InputError(f"{path}: {unknown_name('scope', scope, SCOPES)}")
        _check_table(data[scope], f"{path}.{scope}")
    return {
        scope: {key: _read_one(value, f"{path}.{scope}.{key}") for key, value in dotted(table).items()}
        for scope, table in data.items()
    }


def dotted(table: Mapping[str, Any], known: Collection[str] = ()) -> dict[str, Any]:
    """Tables of tables as names with dots, which is how TOML reads `params.eta = { low = 0.1, high = 1.0 }`.

    `known` are names with dots that there are: a table that holds nothing but fixed values is taken apart
    too, if it makes one of these.

    >>> dotted({"params": {"eta": {"low": 0.1, "high": 1.0}, "threads": 1}, "lr": {"low": 0, "high": 1}})
    {'params.eta': {'low': 0.1, 'high': 1.0}, 'params.threads': 1, 'lr': {'low': 0, 'high': 1}}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        inside = isinstance(value, Mapping) and any(
            isinstance(one, Mapping) or f"{key}.{inner}" in known for inner, one in value.items()
        )
        if inside and not set(value) & {*ALL_KEYS, *MEANT}:
            found |= {f"{key}.{inner}": one for inner, one in dotted(value).items()}
        else:
            found[key] = value
    return found


def _check_table(value: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"{path} must be a table, found {value!r}")


def fixed_value(name: str, value: Any) -> Any:
    """The value that is fixed; what may be meant as a range or a choice is refused, with what to write.

    >>> fixed_value("client.lr", (1e-3, 1.0))
    Traceback (most recent call last):
    ...
    fedhpo.InputError: client.lr = (0.001, 1.0): to tune it write fedhpo.Float(0.001, 1.0, log=True), \
to fix it at this value {'value': (0.001, 1.0)}
    """
    if isinstance(value, Mapping) and set(value) == {"value"}:
        return value["value"]
    instead = _instead(value)
    if instead is None:
        return value
    fix = f", to fix it at this value {{'value': {value!r}}}" if isinstance(value, (list, tuple)) else ""
    raise InputError(f"{name} = {value!r}: to tune it write {instead}{fix}")


def _instead(value: Any) -> str | None:
    """What a user may have meant who gave this in place of a hyperparameter; None of a plain value."""
    if isinstance(value, range):
        return f"fedhpo.Ordinal({list(value)!r})" if len(value) <= 5 else "fedhpo.Int(low, high)"
    if isinstance(value, (list, tuple)):
        return _range_or_choice(value)
    if isinstance(value, (set, frozenset)):
        return "fedhpo.Choice([...])"
    if isinstance(value, Mapping):
        if {"low", "high"} <= set(value):
            return _range_or_choice((value["low"], value["high"]), log=bool(value.get("log")))
        return "fedhpo.Float(low, high), fedhpo.Int(low, high), fedhpo.Choice([...]) or fedhpo.Ordinal([...])"
    module = type(value).__module__.partition(".")[0]
    if module == "optuna":
        if hasattr(value, "choices"):
            return f"fedhpo.Choice({list(value.choices)!r})"
        ends = (getattr(value, "low", "low"), getattr(value, "high", "high"))
        return _range_or_choice(ends, log=bool(getattr(value, "log", False)))
    if module == "scipy" or module in ("hyperopt", "ConfigSpace", "ray"):
        return "fedhpo.Float(low, high), with log=True where it is log-uniform, fedhpo.Int or fedhpo.Choice"
    return None


def _range_or_choice(values: Sequence[Any], log: bool | None = None) -> str:
    if len(values) == 2 and all(type(value) in (int, float) for value in values) and values[0] < values[1]:
        low, high = values
        if log is None:
            log = low > 0 and high >= 100 * low
        kind = "Int" if type(low) is type(high) is int else "Float"
        return f"fedhpo.{kind}({low!r}, {high!r}{', log=True' if log else ''})"
    return f"fedhpo.Choice({list(values)!r})"


def marked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Space` for a scope, fixed lists marked as such."""
    return {key: {"value": value} if isinstance(value, tuple) else value for key, value in values.items()}


def _read_one(value: Any, path: str) -> Any:
    if isinstance(value, (list, tuple)):
        raise InputError(
            f"{path} is a list; write {{ choices = [...] }} to tune it or {{ value = [...] }} to fix it"
        )
    if not isinstance(value, Mapping):
        return value
    for key in value:
        if key not in ALL_KEYS:
            raise InputError(f"{path}: {unknown_name('key', key, ALL_KEYS, MEANT)}")
    if "value" in value:
        if len(value) > 1:
            raise InputError(f"{path}: 'value' fixes it and stands alone, found {', '.join(value)}")
        return dict(value)
    kind = _kind(value, path)
    for key in value:
        if key not in KEYS[kind]:
            raise InputError(f"{path}: {kind!r} has no key {key!r}; known: {', '.join(KEYS[kind])}")
    arguments = {key: item for key, item in value.items() if key != "type"}
    if kind in ("choice", "ordinal"):
        listed = [key for key in ("values", "choices") if key in arguments]
        if len(listed) != 1:
            raise InputError(f"{path}: {kind!r} needs one list, 'choices' or 'values', found {listed}")
        arguments["options" if kind == "choice" else "values"] = arguments.pop(listed[0])
    else:
        for key in ("low", "high"):
            if key not in arguments:
                raise InputError(f"{path}: {kind!r} needs {key!r}, found only {', '.join(value)}")
    try:
        return KINDS[kind](**arguments)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _kind(table: Mapping[str, Any], path: str) -> str:
    if "type" in table:
        if not isinstance(table["type"], str) or table["type"] not in KINDS:
            raise InputError(f"{path}: {unknown_name('type', table['type'], KINDS)}")
        return str(table["type"])
    if "values" in table:
        return "ordinal"
    if "choices" in table:
        return "ordinal" if _increasing(table["choices"]) else "choice"
    if "low" in table or "high" in table:
        return "int" if all(type(table.get(key)) is int for key in ("low", "high")) else "float"
    raise InputError(f"{path}: needs 'low' and 'high', 'choices', 'values' or 'value', found {dict(table)!r}")


def _increasing(choices: Any) -> bool:
    """Numbers in strictly increasing order have an order of their own."""
    if not isinstance(choices, (list, tuple)) or len(choices) < 2:
        return False
    if not all(type(choice) in (int, float) for choice in choices):
        return False
    return all(a < b for a, b in itertools.pairwise(choices))


def write(scopes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The inverse of `read`; empty scopes are left out."""
    return {
        scope: {key: _write_one(value) for key, value in table.items()}
        for scope, table in scopes.items()
        if table
    }


def _write_one(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"value": _plain(value)}
    if not isinstance(value, Hyperparameter):
        return value
    table: dict[str, Any]
    if isinstance(value, (Float, Int)):
        table = {"type": "float" if isinstance(value, Float) else "int", "low": value.low, "high": value.high}
        if value.log:
            table["log"] = True
        if isinstance(value, Float) and value.complement:
            table["complement"] = True
    elif isinstance(value, Ordinal):
        table = {"type": "ordinal", "values": _plain(value.values)}
        if value.log:
            table["log"] = True
    else:
        assert isinstance(value, Choice)
        table = {"type": "choice", "choices": _plain(value.options)}
    if value.default is not None:
        table["default"] = _plain(value.default)
    if value.own is not None:
        table["own"] = value.own
    if value.when:
        table["when"] = {name: _plain(allowed) for name, allowed in value.when.items()}
    return table


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
