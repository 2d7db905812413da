"""Arrays on the wire, and back: every part of a reply is checked against what was expected before use."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedhpo.federations.remote.layout import Layout, Rejected, few

#: How Flower names arrays in numpy's own file format.
_NUMPY = "numpy.ndarray"
_FLOAT32: np.dtype[Any] = np.dtype(np.float32)
#: More than the header of any array of ours takes.
_HEADER = 4096


def encode(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """Named arrays as Flower's; each message puts them in an `ArrayRecord` of its own."""
    return {name: Array(np.asarray(array, np.float32, order="C")) for name, array in arrays.items()}


def decode(record: ArrayRecord, layout: Layout | None = None) -> dict[str, NDArray[np.float32]]:
    """The arrays of a record, each compared with the layout before a byte of it is read.

    Without a layout, as at a client that knows its server, only lengths and types are checked.
    """
    if layout is not None and set(record) != set(layout.shapes):
        raise Rejected(f"the arrays are {few(record)}, expected {few(layout.shapes)}")
    wanted = layout.shapes if layout is not None else dict.fromkeys(record)
    return {name: _decode(name, record[name], shape) for name, shape in wanted.items()}


def opaque(array: NDArray[Any]) -> bool:
    """Whether an array is a row of bytes, such as a model that another library wrote: of any length."""
    return array.dtype == np.uint8 and array.ndim == 1


def decode_like(
    record: ArrayRecord, like: Mapping[str, NDArray[Any]], most_bytes: int
) -> dict[str, NDArray[Any]]:
    """The arrays of a record, which must have the names, types and shapes of others.

    >>> like = {"w": np.zeros(2), "bytes": np.zeros(0, np.uint8)}
    >>> sent = ArrayRecord({"w": Array(np.ones(2)), "bytes": Array(np.arange(3, dtype=np.uint8))})
    >>> decode_like(sent, like, 100)["bytes"].tolist()
    [0, 1, 2]
    """
    if set(record) != set(like):
        raise Rejected(f"the arrays are {few(record)}, expected {few(like)}")
    found = {}
    for name, old in like.items():
        if len(record[name].data) > max(most_bytes, old.nbytes + _HEADER):
            raise Rejected(
                f"array {name!r} has {len(record[name].data)} bytes, at most {most_bytes} are read"
            )
        found[name] = _decode(
            name, record[name], None if opaque(old) else old.shape, old.dtype, any_order=True
        )
        if found[name].ndim != old.ndim:
            raise Rejected(f"array {name!r} has {found[name].ndim} dimensions, expected {old.ndim}")
    return found


def _decode(
    name: str,
    array: Array,
    shape: tuple[int, ...] | None,
    wanted: np.dtype[Any] = _FLOAT32,
    *,
    any_order: bool = False,
) -> NDArray[Any]:
    """One array. numpy's own reader would first make room for whatever length the header states."""
    if array.stype != _NUMPY:
        raise Rejected(f"array {name!r} is written as {array.stype!r}, expected {_NUMPY!r}")
    stream = io.BytesIO(array.data[:_HEADER])
    try:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        found, fortran, dtype = read(stream, max_header_size=_HEADER)
    except Exception as error:
        raise Rejected(f"array {name!r} cannot be read: {error}") from None
    if dtype != wanted:
        raise Rejected(f"array {name!r} is {dtype}, expected {wanted}")
    if shape is not None and found != shape:
        raise Rejected(f"array {name!r} has shape {found}, expected {shape}")
    if fortran and len(found) > 1 and not any_order:
        raise Rejected(f"array {name!r} is in Fortran's order, expected C's")
    begin, length = stream.tell(), wanted.itemsize * math.prod(found)
    if len(array.data) - begin != length:
        raise Rejected(f"array {name!r} holds {len(array.data) - begin} bytes, its header says {length}")
    values = np.frombuffer(array.data, wanted.newbyteorder("<"), offset=begin)
    return values.reshape(found, order="F" if fortran else "C")
