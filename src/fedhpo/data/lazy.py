"""Clients whose rows are loaded when they are needed: a function from client to data, and a bounded cache.

Only sizes are known of every client. So a federation of a million clients starts at once and takes the memory
of a few numbers a client, and of the clients that were met last.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import is_number, whole_number
from fedhpo.core.streams import stream
from fedhpo.data.container import Array, FederatedData, Integers, Split
from fedhpo.data.split import InsideClients

#: A client's number to its rows `(x, y)`.
Load = Callable[[int], tuple[Any, Any]]


class Ranges:
    """Row numbers of clients that hold one stretch each, written out only where they are asked for."""

    def __init__(self, begins: Integers, offsets: Integers) -> None:
        self._begins, self._offsets = begins, offsets

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def __getitem__(self, places: slice) -> Integers:
        asked = np.arange(*places.indices(len(self)))
        clients = np.searchsorted(self._offsets, asked, "right") - 1
        return np.asarray(self._begins[clients] + asked - self._offsets[clients])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        sizes = np.diff(self._offsets)
        return np.arange(len(self)) + np.repeat(self._begins - self._offsets[:-1], sizes)


@dataclass(frozen=True, eq=False)
class Source:
    """Where lazily loaded clients come from, without their rows; it travels to workers."""

    load: Load
    sizes: Integers
    shape: tuple[int, ...]
    dtypes: tuple[Any, Any]
    classes: int | None
    shares: tuple[float, float]
    seed: int
    cache_bytes: int
    mean: Array | None
    std: Array | None
    name: str

    def data(self) -> FederatedData:
        """The federation's data, with an empty cache."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        parts = InsideClients(*self.shares).sizes(self.sizes)
        begins, splits = offsets[:-1], []
        for sizes in parts:
            ends = np.concatenate([[0], np.cumsum(sizes)])
            splits.append(_Stretches(Ranges(begins, ends), ends, begins))  # type: ignore[arg-type]
            begins = begins + sizes
        rows = _Rows(self, offsets)
        return FederatedData(
            x=rows.column(0),
            y=rows.column(1),
            train=splits[0],
            validation=splits[1],
            test=splits[2],
            task="regression" if self.classes is None else "classification",
            classes=self.classes,
            mean=self.mean,
            std=self.std,
            name=self.name,
        )


@dataclass(frozen=True, eq=False)
class _Stretches(Split):
    """A split of which each client holds one stretch of rows."""

    begins: Integers

    def rows(self, client: int) -> Integers:
        if not 0 <= client < self.clients:
            raise IndexError(f"client {client} of {self.clients}")
        begin = self.begins[client]
        return np.arange(begin, begin + self.offsets[client + 1] - self.offsets[client])


@dataclass(eq=False)
class _Rows:
    """The rows of all clients; those of the clients met last are held."""

    source: Source
    offsets: Integers
    _held: OrderedDict[int, tuple[Array, Array]] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def column(self, which: int) -> Any:
        return Column(self, which)

    def client(self, number: int) -> tuple[Array, Array]:
        found = self._held.get(number)
        if found is not None:
            self._held.move_to_end(number)
            return found
        found = self._loaded(number)
        self._held[number] = found
        self._bytes += sum(part.nbytes for part in found)
        while self._bytes > self.source.cache_bytes and len(self._held) > 1:
            _, gone = self._held.popitem(last=False)
            self._bytes -= sum(part.nbytes for part in gone)
        return found

    def _loaded(self, number: int) -> tuple[Array, Array]:
        source = self.source
        x, y = read(source.load, number)
        count = int(source.sizes[number])
        if (x.shape, y.shape) != ((count, *source.shape), (count,)):
            raise InputError(
                f"client {number}: load gave x {x.shape} and y {y.shape}; by `sizes` it has {count} rows, "
                f"and the first client's samples have shape {source.shape}"
            )
        if (x.dtype, y.dtype) != source.dtypes:
            raise InputError(f"client {number}: x is {x.dtype} and y {y.dtype}, the first client's are not")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise InputError(f"client {number}: x is NaN or infinite")
        if source.classes is not None and ((y < 0) | (y >= source.classes)).any():
            raise InputError(f"client {number}: y is not in 0..{source.classes - 1}")
        if source.classes is None and not np.isfinite(y).all():
            raise InputError(f"client {number}: y is NaN or infinite")
        order = stream(source.seed, "rows", number).permutation(count)
        return x[order], y[order]


@dataclass(eq=False)
class Column:
    """`x` or `y` of all clients: indexed by rows like an array, of which a few are in memory."""

    rows: _Rows
    which: int

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array of all rows."""
        return (int(self.rows.offsets[-1]), *(self.rows.source.shape if self.which == 0 else ()))

    @property
    def dtype(self) -> Any:
        """The type of its numbers."""
        return self.rows.source.dtypes[self.which]

    @property
    def ndim(self) -> int:
        """As of an array of all rows."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """What all rows would take."""
        return int(math.prod(self.shape) * self.dtype.itemsize)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        rows = np.asarray(rows, np.int64)
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        clients = np.searchsorted(self.rows.offsets, rows, "right") - 1
        for client in np.unique(clients).tolist():
            mine = clients == client
            found[mine] = self.rows.client(client)[self.which][rows[mine] - self.rows.offsets[client]]
        return found


def source_of(data: FederatedData) -> Source | None:
    """Where the clients of this data come from, if they are loaded lazily."""
    column: Any = data.x
    return column.rows.source if isinstance(column, Column) else None


def read(load: Load, number: int) -> tuple[Array, Array]:
    """A client's rows as arrays of the types that training takes."""
    try:
        x, y = (np.asarray(part) for part in load(number))
    except Exception as error:
        raise InputError(f"client {number} cannot be loaded: {type(error).__name__}: {error}") from error
    if x.dtype.kind in "fb":
        x = x.astype(np.float32, copy=False)
    return x, y.astype(np.float32 if y.dtype.kind == "f" else np.int64, copy=False)


def from_loader(
    load: Load,
    sizes: Sequence[int] | Integers,
    *,
    classes: int | None = None,
    validation: float = 0.1,
    test: float = 0.1,
    cache_mb: float = 256,
    seed: int = 0,
    mean: Any = None,
    std: Any = None,
    name: str = "custom",
) -> FederatedData:
    """Clients that are loaded when they are met: `load(client)` gives the pair `(x, y)` of a client's rows.

    `sizes` are the rows of each client, which must be known beforehand. `load` must give the same whenever
    it is called; worker processes call it too. Each process keeps the clients that it met last, up to
    `cache_mb` megabytes. Whole-number `y` are classes, whose number `classes` says; floats are regression.
    Rows are split as by `from_clients`, at random within each client. Looking at the labels of all clients (a
    profile of the federation, say) loads them all.

    >>> def load(client):
    ...     rng = np.random.default_rng(client)
    ...     return rng.normal(size=(20, 3)), rng.integers(0, 4, 20)
    >>> from_loader(load, np.full(1_000_000, 20), classes=4)
    <custom: 1000000 clients, train 16000000 rows of 1000000, validation 2000000 rows of 1000000, \
test 2000000 rows of 1000000; x (3,) float32; classification, 4 classes>
    """
    if not callable(load):
        raise InputError(f"load must be a function from a client's number to (x, y), not {load!r}")
    rows = np.asarray(sizes)
    if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu" or (rows < 1).any():
        raise InputError("sizes must be whole numbers from 1, the rows of each client")
    if not is_number(cache_mb) or cache_mb < 0:
        raise InputError(f"cache_mb must be a number from 0, not {cache_mb!r}")
    x, y = read(load, 0)
    if x.ndim < 2 or y.ndim != 1 or x.dtype.kind not in "fiu":
        raise InputError(
            f"load(0) gave x {x.shape} and y {y.shape}; allowed: rows of numbers, one label a row"
        )
    if y.dtype.kind == "i":
        if classes is None:
            raise InputError("classes is needed: the labels of all clients are not known beforehand")
        whole_number("classes", classes)
    elif classes is not None:
        raise InputError(f"classes is {classes}, but y is {y.dtype}, which is regression")
    source = Source(
        load,
        rows.astype(np.int64),
        x.shape[1:],
        (x.dtype, y.dtype),
        classes,
        (validation, test),
        seed,
        int(cache_mb * 1e6),
        None if mean is None else np.asarray(mean, np.float32),
        None if std is None else np.asarray(std, np.float32),
        name,
    )
    data = source.data()
    _ = data.x[:1]  # the first client is checked like all others
    return data
