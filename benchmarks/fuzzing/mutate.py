"""Mutations of nested tables and of bytes, and odd values for Python calls; all follow from a `Random`."""

from __future__ import annotations

import copy
import datetime
import decimal
import fractions
import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

_STRINGS = (
    "",
    " ",
    "x",
    "os:nothing",
    ":",
    "a:b:c",
    "SHA",
    "fedexx",
    "mlp",
    "../..",
    "true",
    "1e3",
    "é\u202e😀",
    "\x00",
)
_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    0.0,
    -0.0,
    0.5,
    1.5,
    -1.5,
    1e-320,
    1e300,
    -1e300,
    2**31,
    2**63,
    -(2**63),
    10**30,
)
_DATES = (
    datetime.date(2024, 1, 1),
    datetime.time(12, 30),
    datetime.datetime(2024, 1, 1, 12, 0),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
)
#: Keys that users confuse with ours, or that mean something elsewhere in a file.
_KEYS = (
    "",
    "low",
    "high",
    "min",
    "max",
    "kind",
    "type",
    "name",
    "value",
    "values",
    "choices",
    "lr",
    "seed",
    "a.b",
    "é",
)
#: What keeps a text in the neighbourhood of TOML and JSON.
_TOKENS = (
    b"[",
    b"]",
    b"[[",
    b"{",
    b"}",
    b"=",
    b"\n",
    b'"',
    b"'",
    b"#",
    b",",
    b".",
    b"nan",
    b"-inf",
    b"\xff",
    b"\x00",
    b"1979-05-27",
    b"true",
    b"null",
    b"1e999",
    b"[" * 3000,
    b"a." * 2000,
    b"{a=" * 500,
)


def odd_leaf(rng: Random, toml: bool) -> Any:
    """A value that a file may hold where another is expected."""
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice(_STRINGS)
    if kind <= 3:
        return rng.choice(_NUMBERS)
    if kind == 4:
        return rng.choice((math.nan, math.inf, -math.inf, True, False))
    if kind == 5:
        return rng.choice(_DATES) if toml else None
    if kind == 6:
        return rng.choice(
            ([], {}, [1, 2], ["a", 1], [[]], {"x": 1}, [{}], [True], [0.1, 0.2, 0.3], {"kind": []})
        )
    return nested(rng.choice((2, 5, 50)), rng)


def nested(depth: int, rng: Random) -> Any:
    """Tables in tables, or lists in lists."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def places(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = [at] if at else []
    for key, value in items:
        found += places(value, (*at, key))
    return found


def _holder(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree


def mutated(tree: Any, rng: Random, toml: bool = True) -> Any:
    """The tree with one to three values changed, removed, renamed, moved, doubled or wrapped."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        paths = places(tree)
        if not paths:
            return tree
        path = rng.choice(paths)
        _change(tree, path, paths, rng, toml)
    return tree


def _change(tree: Any, path: tuple[Any, ...], paths: list[tuple[Any, ...]], rng: Random, toml: bool) -> None:
    holder, key = _holder(tree, path), path[-1]
    kind = rng.randrange(14)
    if kind <= 3:
        holder[key] = odd_leaf(rng, toml)
    elif kind == 4:
        del holder[key]
    elif kind == 5 and isinstance(holder, dict):
        holder[rng.choice((*_KEYS, _typo(str(key), rng)))] = holder.pop(key)
    elif kind == 6 and isinstance(holder, dict):
        holder[rng.choice(_KEYS)] = odd_leaf(rng, toml)
    elif kind == 7:
        other = rng.choice(paths)
        holder[key] = copy.deepcopy(_holder(tree, other)[other[-1]])
    elif kind == 8:
        holder[key] = [holder[key]] if rng.random() < 0.5 else {rng.choice(_KEYS): holder[key]}
    else:
        holder[key] = _near(holder[key], rng)


def _near(value: Any, rng: Random) -> Any:
    """A value much like the one that was there."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice((-value, value * 10, value + 1, float(value), str(value), 0, value / 3))
    if isinstance(value, str):
        return rng.choice((_typo(value, rng), value.upper(), value + "x", value[:-1], value.title(), [value]))
    return rng.choice((value, None))


def _typo(text: str, rng: Random) -> str:
    at = rng.randrange(len(text) + 1)
    return rng.choice((text[:at] + text[at + 1 :], text[:at] + "q" + text[at:], text[::-1]))


def mutated_bytes(content: bytes, rng: Random) -> bytes:
    """The content with bits flipped, pieces cut, doubled or moved, and tokens put in."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        length = rng.choice((1, 1, 4, 20, 200))
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = data[at : at + length]
        elif kind == 3:
            data[at:at] = rng.choice(_TOKENS)
        elif kind == 4:
            data[at : at + length] = bytes(rng.randrange(256) for _ in range(min(length, len(data) - at)))
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


# TOML, as far as studies need it


def toml(tree: dict[Any, Any]) -> str:
    """A table as TOML text; what TOML cannot hold (None) is left out."""
    return "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in tree.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return (
            "nan"
            if math.isnan(value)
            else ("inf" if value > 0 else "-inf")
            if math.isinf(value)
            else repr(value)
        )
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value if item is not None)}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items() if v is not None) + " }"
    return _key(value)


def _key(value: Any) -> str:
    text = json.dumps(str(value), ensure_ascii=True)
    return "".join(text) if "\\ud" not in text else json.dumps(ascii(value))


# Odd values for Python calls


class Hollow:
    """An object without anything."""

    def __repr__(self) -> str:
        return "<Hollow>"


def odd(rng: Random) -> Any:
    """A value that a Python call may be given by mistake."""
    return rng.choice(
        (
            None,
            True,
            False,
            "",
            "x",
            "SHA",
            b"x",
            math.nan,
            math.inf,
            -math.inf,
            -1,
            0,
            1,
            2,
            3,
            5,
            0.5,
            1.5,
            -0.5,
            1e300,
            2**63,
            10**30,
            1 + 2j,
            [],
            (),
            {},
            set(),
            [1, 2],
            (1e-3, 1.0),
            {"a": 1},
            {"x"},
            range(3),
            Hollow(),
            Hollow,
            lambda: None,
            lambda *a, **k: None,
            np.float64("nan"),
            np.float32(0.5),
            np.int64(3),
            np.bool_(True),
            np.array(3),
            np.array([1, 2]),
            np.array([]),
            np.array(["a"]),
            Path("x"),
            decimal.Decimal("0.1"),
            fractions.Fraction(1, 3),
            datetime.date(2024, 1, 1),
            NotImplemented,
            ...,
            [[1], [2, 3]],
            "cuda",
            "é" * 300,
            np.random.default_rng(0),
            iter([1, 2]),
            type,
            print,
            [None],
            {"client": {"lr": 0.1}},
            {"lr": 0.1},
            [{}],
        )
    )
