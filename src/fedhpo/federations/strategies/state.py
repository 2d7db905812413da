"""What a strategy remembers between rounds, as arrays and JSON: copied, forked and kept without pickle.

A strategy's state is what differs from one that was built anew with the same arguments. So arguments may
change from one round to the next, and a strategy of a user's own needs to say nothing of its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedhpo.core.errors import InputError

_PLAIN = (type(None), bool, int, float, str)
_RECORDS: Mapping[str, type[Any]] = {"config": ConfigRecord, "metrics": MetricRecord}


@dataclass(frozen=True)
class StrategyState:
    """Attributes by name, JSON in which arrays are named; and the arrays."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def state_of(strategy: Strategy, fresh: Strategy) -> StrategyState:
    """What `strategy` remembers, given one that was built in the same way and has done nothing.

    >>> from flwr.serverapp.strategy import FedAvgM
    >>> used, fresh = FedAvgM(), FedAvgM()
    >>> used.momentum_vector = [np.ones(2)]
    >>> found = state_of(used, fresh)
    >>> set_state(fresh, found)
    >>> fresh.momentum_vector
    [array([1., 1.])]
    """
    writer = _Writer()
    attributes = writer.attributes(strategy, fresh, type(strategy).__name__)
    return StrategyState(attributes, writer.arrays)


def set_state(strategy: Strategy, state: StrategyState) -> None:
    """Let a strategy that was built anew remember what `state_of` wrote."""
    _set(strategy, state.attributes, state.arrays)


def _set(owner: Any, attributes: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    for name, written in attributes.items():
        if "inside" in written:
            _set(getattr(owner, name), written["inside"], arrays)
        else:
            setattr(owner, name, _read(written, arrays))


class _Writer:
    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}

    def attributes(self, used: Any, fresh: Any, where: str) -> dict[str, Any]:
        """The attributes that differ; of an object inside, such as a wrapped strategy, those of its own."""
        found: dict[str, Any] = {}
        before = vars(fresh)
        for name, value in sorted(vars(used).items()):
            path = f"{where}.{name}"
            if name in before and _same(value, before[name]):
                continue
            kept = before.get(name)
            if _is_object(value) and type(kept) is type(value):
                inside = self.attributes(value, kept, path)
                if inside:
                    found[name] = {"inside": inside}
            else:
                found[name] = self.write(value, path)
        return found

    def write(self, value: Any, where: str) -> dict[str, Any]:
        """A value as JSON."""
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value))}
        if type(value) in _PLAIN:
            return {"is": value}
        if isinstance(value, np.ndarray):
            return {"array": self._array(value)}
        if isinstance(value, bytes | bytearray):
            return {"bytes": self._array(np.frombuffer(bytes(value), np.uint8))}
        if isinstance(value, list | tuple):
            items = [self.write(one, where) for one in value]
            return {"list" if isinstance(value, list) else "tuple": items}
        if isinstance(value, ArrayRecord):
            return {"record": [[name, self._array(array.numpy())] for name, array in value.items()]}
        if isinstance(value, dict):
            return {"dict": self._pairs(value, where)}
        for kind, record in _RECORDS.items():
            if isinstance(value, record):
                return {kind: self._pairs(value, where)}
        raise InputError(
            f"{where} is a {type(value).__name__}, which cannot be kept from one round to the next: a "
            "strategy may remember numbers, texts, bytes, arrays, Flower's records, and lists and dicts of "
            "these"
        )

    def _pairs(self, value: Mapping[Any, Any], where: str) -> list[list[Any]]:
        for key in value:
            if type(key) not in _PLAIN:
                raise InputError(f"{where} has the key {key!r}, which cannot be kept: use a text or a number")
        return [[key, self.write(one, where)] for key, one in value.items()]

    def _array(self, array: NDArray[Any]) -> str:
        if array.dtype.hasobject:
            raise InputError("a strategy's array of Python objects cannot be kept")
        name = str(len(self.arrays))
        self.arrays[name] = np.array(array)
        return name


def _read(written: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    [(kind, value)] = written.items()
    if kind == "is":
        return value
    if kind == "array":
        return arrays[value].copy()
    if kind == "scalar":
        return arrays[value][()]
    if kind == "bytes":
        return arrays[value].tobytes()
    if kind == "record":
        return ArrayRecord({name: Array(arrays[place].copy()) for name, place in value})
    if kind in ("list", "tuple"):
        items = [_read(one, arrays) for one in value]
        return items if kind == "list" else tuple(items)
    pairs = {key: _read(one, arrays) for key, one in value}
    return pairs if kind == "dict" else _RECORDS[kind](pairs)


def _is_object(value: Any) -> bool:
    """Whether a value is an object with attributes, rather than a record, a function or a plain value."""
    known = (*_PLAIN, np.ndarray, np.generic, list, tuple, dict, bytes, bytearray)
    records = (ArrayRecord, ConfigRecord, MetricRecord)
    return (
        not isinstance(value, (*known, *records, type)) and not callable(value) and hasattr(value, "__dict__")
    )


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if callable(a):  # a function made in the constructor: what it is follows from the arguments
        return True
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, ArrayRecord):
        return list(a) == list(b) and all(_same(a[name].numpy(), b[name].numpy()) for name in a)
    if isinstance(a, Mapping):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if _is_object(a):
        return vars(a).keys() == vars(b).keys() and all(_same(vars(a)[k], vars(b)[k]) for k in vars(a))
    return bool(a == b)
