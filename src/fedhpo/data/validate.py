"""Checks that data can be trained on. Every check is over whole arrays; every message names the client."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import shown, whole_number
from fedhpo.data.container import IGNORE, Array, FederatedData, Split

TASKS = ("classification", "regression", "language")

_CHUNK = 1 << 24
"""Numbers looked at in one go, so that checking needs little memory beside the data."""


def validate(data: FederatedData) -> None:
    """Raise `InputError` for the first thing that cannot be trained on."""
    if not isinstance(data.task, str) or data.task not in TASKS:
        raise unknown_name("task", data.task, TASKS)
    _check_types(data)
    _check_arrays(data)
    for name, split in _splits(data):
        _check_split(name, split, data)
    _check_clients(data)
    _check_scaling(data)
    if data.x.dtype.kind == "f":
        _refuse(data, _not_finite(data.x, nan=data.fill is not None), "x is NaN or infinite")
    if data.y.dtype.kind == "f":
        _refuse(data, ~np.isfinite(data.y), "y is NaN or infinite")
    else:
        _check_labels(data)


def _splits(data: FederatedData) -> Iterator[tuple[str, Split]]:
    yield "train", data.train
    yield "validation", data.validation
    yield "test", data.test


def _check_types(data: FederatedData) -> None:
    for name, kind in (("x", np.ndarray), ("y", np.ndarray), *((name, Split) for name, _ in _splits(data))):
        if not isinstance(getattr(data, name), kind):
            raise InputError(f"{name} must be of type {kind.__name__}, found {shown(getattr(data, name))}")
    if data.x.ndim == 0 or data.y.ndim == 0:
        raise InputError("x and y must have one row a sample")
    if data.classes is not None:
        whole_number("classes", data.classes)
    if data.client_names is not None and not isinstance(data.client_names, tuple | list):
        raise InputError(f"client_names must be a tuple of names, found {shown(data.client_names)}")
    for name, value in (("mean", data.mean), ("std", data.std)):
        if value is not None and np.asarray(value).dtype.kind not in "fiu":
            raise InputError(f"{name} must be numbers, found {shown(value)}")


def _check_arrays(data: FederatedData) -> None:
    if len(data.x) == 0 or len(data.x) != len(data.y):
        raise InputError(f"x has {len(data.x)} rows, y {len(data.y)}; both need the same number, at least 1")
    if data.x.dtype.names is None and data.x.dtype != np.float32 and data.x.dtype.kind not in "iu":
        raise InputError(f"x is {data.x.dtype}; allowed: float32 or integers")
    wanted = np.float32 if data.task == "regression" else np.int64
    if data.y.dtype != wanted:
        raise InputError(f"y is {data.y.dtype}; {data.task} needs {np.dtype(wanted)}")
    if data.y.ndim > (2 if data.task == "language" else 1):
        raise InputError(f"y has shape {data.y.shape}; {data.task} needs one label a sample")
    if data.task != "regression" and (data.classes is None or data.classes < 1):
        raise InputError(f"classes is {data.classes}; {data.task} needs a number of at least 1")
    if data.client_names is not None and len(data.client_names) != data.clients:
        raise InputError(f"client_names has {len(data.client_names)} names for {data.clients} clients")


def _check_split(name: str, split: Split, data: FederatedData) -> None:
    if split.clients != data.clients:
        raise InputError(f"{name} is over {split.clients} clients, train over {data.clients}")
    offsets = split.offsets
    if offsets[0] != 0 or offsets[-1] != len(split.indices) or (np.diff(offsets) < 0).any():
        raise InputError(f"{name}: offsets must rise from 0 to the number of indices, {len(split.indices)}")
    outside = (split.indices < 0) | (split.indices >= len(data.x))
    if outside.any():
        first = int(outside.argmax())
        client = data.client_name(int(split.owners[first]))
        raise InputError(
            f"{name}, client {client}: row {split.indices[first]} is not in 0..{len(data.x) - 1}"
        )


def _check_clients(data: FederatedData) -> None:
    if data.clients == 0 or len(data.train.indices) == 0:
        raise InputError("no client has training rows; at least one must")
    total = data.train.sizes + data.validation.sizes + data.test.sizes
    if (total == 0).any():
        raise InputError(f"client {data.client_name(int((total == 0).argmax()))} has no rows at all")
    # A row may be held by several clients (sampling with replacement), but what a client trains
    # on it must not be scored on. With several holders the last one is remembered: a miss at most.
    trainer = np.full(len(data.x), -1, dtype=np.int64)
    trainer[data.train.indices] = data.train.owners
    for name, split in (("validation", data.validation), ("test", data.test)):
        shared = trainer[split.indices] == split.owners
        if shared.any():
            first = int(shared.argmax())
            client = data.client_name(int(split.owners[first]))
            raise InputError(f"client {client}: row {split.indices[first]} is in both train and {name}")


def _check_scaling(data: FederatedData) -> None:
    for name, value in (("mean", data.mean), ("std", data.std)):
        if value is None:
            continue
        try:
            fits = np.broadcast_shapes(np.shape(value), data.shape) == data.shape
        except ValueError:
            fits = False
        if not fits:
            raise InputError(
                f"{name} has shape {np.shape(value)}; it must broadcast to a sample's {data.shape}"
            )
        if not np.isfinite(value).all() or (name == "std" and (np.asarray(value) <= 0).any()):
            raise InputError(
                f"{name} must be finite{' and positive' if name == 'std' else ''}, found {value}"
            )


def _check_labels(data: FederatedData) -> None:
    assert data.classes is not None
    bad = (data.y < 0) | (data.y >= data.classes)
    if data.task == "language":
        bad &= data.y != IGNORE
    _refuse(data, bad, f"y is not in 0..{data.classes - 1}", data.y)
    if data.task == "language" and data.is_tokens and (data.x.min() < 0 or data.x.max() >= data.classes):
        bad = (data.x < 0) | (data.x >= data.classes)
        _refuse(data, bad, f"x has a token that is not in 0..{data.classes - 1}", data.x)


def _not_finite(x: Array, nan: bool = False) -> npt.NDArray[np.bool_]:
    """Which rows have an infinity, or a NaN where `nan` does not allow it."""
    step = max(1, _CHUNK // max(1, int(np.prod(x.shape[1:]))))
    bad = np.zeros(len(x), dtype=bool)
    for start in range(0, len(x), step):
        part = x[start : start + step]
        fine = ~np.isinf(part) if nan else np.isfinite(part)
        bad[start : start + step] = ~fine.reshape(len(part), -1).all(axis=1)
    return bad


def _refuse(data: FederatedData, bad: npt.NDArray[np.bool_], what: str, values: Array | None = None) -> None:
    """Raise for the first bad row that a client holds; rows that nobody holds do no harm."""
    if not bad.any():
        return
    rows = np.asarray(bad.reshape(len(bad), -1).any(axis=1))
    for name, split in _splits(data):
        hit = rows[split.indices]
        if hit.any():
            owner = int(split.owners[hit][0])
            mine = hit[split.offsets[owner] : split.offsets[owner + 1]]
            row = int(split.rows(owner)[mine.argmax()])
            found = (
                "" if values is None else f" (found {np.atleast_1d(values[row])[np.atleast_1d(bad[row])][0]})"
            )
            raise InputError(
                f"client {data.client_name(owner)}, {name}: {what}{found} in {mine.sum()} of {len(mine)} rows"
            )
