"""One point of a search space, as a value: immutable, hashable, JSON both ways.

>>> config = Config(client={"lr": 0.1, "batch_size": 32}, server={"lr": 1.0})
>>> config.client["lr"]
0.1
>>> config == Config.from_dict(config.to_dict())
True
>>> print(config)
client(batch_size=32, lr=0.1) server(lr=1)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name

SCOPES = ("client", "server", "model", "policy")


class Frozen(Mapping[str, Any]):
    """A read-only mapping that can be hashed, pickled and compared with any mapping.

    >>> Frozen({"lr": 0.1}) == {"lr": 0.1}
    True
    """

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        self._items: dict[str, Any] = dict(items or {})
        self._hash: int | None = None  # asked for again and again where configs come from a pool

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Frozen):
            return self._items == other._items
        return dict(other) == self._items if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __reduce__(self) -> tuple[type[Frozen], tuple[dict[str, Any]]]:
        return Frozen, (self._items,)

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True, slots=True, repr=False)
class Config:
    """The hyperparameters of a trial, by scope: only the active ones and the fixed values.

    Values are `None`, `bool`, `int`, finite `float`, `str` or tuples of these. NumPy scalars become
    plain Python numbers and lists become tuples, so equal configs are equal on every machine and
    after any number of trips through JSON. Names are in alphabetical order in each scope, in whichever
    order they are given: what is printed, written or iterated over does not depend on it.

    >>> Config(client={"momentum": 0.9, "lr": 0.1})
    Config(client={'lr': 0.1, 'momentum': 0.9})
    """

    client: Mapping[str, Any] = field(default_factory=Frozen)
    server: Mapping[str, Any] = field(default_factory=Frozen)
    model: Mapping[str, Any] = field(default_factory=Frozen)
    policy: Mapping[str, Any] = field(default_factory=Frozen)

    def __post_init__(self) -> None:
        for scope in SCOPES:
            object.__setattr__(self, scope, _frozen_scope(scope, getattr(self, scope)))

    def replace(self, **scopes: Mapping[str, Any]) -> Config:
        """The same config with whole scopes exchanged.

        >>> Config(client={"lr": 0.1, "epochs": 2}).replace(client={"lr": 0.2})
        Config(client={'lr': 0.2})
        """
        for scope in scopes:
            if scope not in SCOPES:
                raise unknown_name("scope", scope, SCOPES)
        return Config(**{**{scope: getattr(self, scope) for scope in SCOPES}, **scopes})

    def merge(self, other: Config) -> Config:
        """Both configs in one; where both hold a name, `other` wins.

        >>> Config(client={"lr": 0.1, "epochs": 2}).merge(Config(client={"lr": 0.2}))
        Config(client={'epochs': 2, 'lr': 0.2})
        """
        return Config(**{scope: {**getattr(self, scope), **getattr(other, scope)} for scope in SCOPES})

    def flat(self) -> dict[str, Any]:
        """All values by their full names.

        >>> Config(client={"lr": 0.1}, server={"lr": 1.0}).flat()
        {'client.lr': 0.1, 'server.lr': 1.0}
        """
        return {f"{scope}.{key}": value for scope in SCOPES for key, value in getattr(self, scope).items()}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain JSON values by scope; empty scopes are left out."""
        scopes = ((scope, getattr(self, scope)) for scope in SCOPES)
        return {
            scope: {key: _thawed(value) for key, value in values.items()}
            for scope, values in scopes
            if values
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Mapping[str, Any]]) -> Config:
        """The inverse of `to_dict`."""
        if not isinstance(data, Mapping):
            raise InputError(f"a config must be a table of scopes ({', '.join(SCOPES)}), found {data!r}")
        for scope in data:
            if scope not in SCOPES:
                raise unknown_name("scope", scope, SCOPES)
        return cls(**data)

    def __str__(self) -> str:
        return " ".join(
            f"{scope}({', '.join(f'{key}={_short(value)}' for key, value in getattr(self, scope).items())})"
            for scope in SCOPES
            if getattr(self, scope)
        )

    def __repr__(self) -> str:
        scopes = (f"{scope}={getattr(self, scope)!r}" for scope in SCOPES if getattr(self, scope))
        return f"Config({', '.join(scopes)})"


def frozen_value(name: str, value: Any) -> Any:
    """`value` as a plain, immutable Python value, or an `InputError` that names it.

    >>> frozen_value("client.hidden", [np.int64(32), 16])
    (32, 16)
    """
    kind = type(value)
    if kind is float:
        if not math.isfinite(value):
            raise InputError(f"{name} = {value}: must be finite")
        return value
    if kind is int or kind is str or kind is bool or value is None:
        return value
    if isinstance(value, np.generic):
        return frozen_value(name, value.item())
    if isinstance(value, (list, tuple)):
        return tuple(frozen_value(name, item) for item in value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return frozen_value(name, float(value))
    if isinstance(value, str):
        return str.__str__(value)
    raise InputError(
        f"{name} = {value!r}: must be a number, string, boolean, None or a list of these, not {kind.__name__}"
    )


def check_key(scope: str, key: object) -> None:
    """Names are non-empty strings; `scope.name` is read back at its first dot, so a name may hold others."""
    if not isinstance(key, str) or not key or key[0] == "." or key[-1] == ".":
        raise InputError(f"{scope}: a name must be a non-empty string, no dot at its ends, found {key!r}")


def _frozen_scope(scope: str, values: Any) -> Frozen:
    if not isinstance(values, Mapping):
        raise InputError(f"{scope} must map names to values, found {values!r}")
    for key in values:
        check_key(scope, key)
    return Frozen({key: frozen_value(f"{scope}.{key}", values[key]) for key in sorted(values)})


def _thawed(value: Any) -> Any:
    return [_thawed(item) for item in value] if isinstance(value, tuple) else value


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
