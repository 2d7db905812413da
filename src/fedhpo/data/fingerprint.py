"""Fingerprints of data: the rows of each client, and a digest of them all.

Rows are hashed once each, wherever they lie, with a multilinear hash: the sum of 32-bit words times 64-bit
multipliers, modulo 2^64. It is fast in plain numpy, and two rows that differ have the same hash with a
probability of about 2^-32, whatever the difference. A client's hash is made of its rows'
hashes in their order, so that it does not matter where in `x` they lie. It guards against mistakes, not
against somebody who constructs rows with equal hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.fingerprint.arrays import SPLITS, array_digest, pack

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.data.container import Split

Words = NDArray[np.uint64]

#: Bytes, and rows, that are hashed at a time: they stay in the cache.
_BLOCK, _ROWS = 1 << 18, 1 << 14
#: Words of a row up to which columns are taken one by one: shorter loops over rows cost more.
_NARROW = 12


def data_of(data: FederatedData) -> dict[str, Any]:
    """The fingerprint of a federation's data.

    >>> import fedhpo as fh
    >>> first = data_of(fh.load("digits", clients=5, seed=0))
    >>> first["clients"], first == data_of(fh.load("digits", clients=5, seed=1))
    (5, False)
    """
    splits = [getattr(data, split) for split in SPLITS]
    clients = _lazy_hashes(data) if data.is_lazy else _hashes(data, splits)
    whole = hashlib.blake2b(digest_size=16)
    for split, hashes in zip(splits, clients, strict=True):
        whole.update(np.ascontiguousarray(split.sizes, "<i8").tobytes() + hashes.tobytes())
    tags = clients[0] + _mixed(clients[1]) + _mixed(_mixed(clients[2]))
    scaling = {
        name: None if found is None else array_digest(np.asarray(found))
        for name, found in (("mean", data.mean), ("std", data.std))
    }
    names = data.client_names
    return {
        "name": data.name,
        "task": data.task,
        "classes": data.classes,
        "sample": [list(data.shape), data.x.dtype.name],
        "label": [list(data.y.shape[1:]), data.y.dtype.name],
        "scaling": scaling,
        "clients": data.clients,
        "names": None if names is None else hashlib.blake2b(repr(names).encode(), digest_size=8).hexdigest(),
        "sizes": {name: pack(split.sizes) for name, split in zip(SPLITS, splits, strict=True)},
        "rows": pack((tags >> np.uint64(32)).astype(np.uint32)),
        "digest": whole.hexdigest(),
    }


def _hashes(data: FederatedData, splits: Sequence[Split]) -> list[Words]:
    """By split, a hash of each client's rows."""
    rows = row_hashes(data.x, data.y)
    return [client_hashes(rows, split) for split in splits]


def _lazy_hashes(data: FederatedData) -> list[Words]:
    """The same where clients are loaded lazily: of the few that checks look at, and of no other."""
    rows = data.looked_at
    hashes = row_hashes(data.x[rows], data.y[rows])
    found: Words = np.zeros(data.clients, np.uint64)
    owners = np.searchsorted(np.cumsum(_total_sizes(data)), rows, "right")
    for client in np.unique(owners).tolist():
        mine = hashes[owners == client]
        found[client] = _mixed(np.array([(mine * _multipliers(len(mine))).sum()], np.uint64))[0]
    return [found, np.zeros_like(found), np.zeros_like(found)]


def _total_sizes(data: FederatedData) -> NDArray[np.int64]:
    return data.train.sizes + data.validation.sizes + data.test.sizes


def row_hashes(*arrays: NDArray[Any]) -> Words:
    """A hash of each row of one array, or of several of the same length: row `i` of each of them.

    >>> one, two, three = row_hashes(np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]]))
    >>> bool(one == two), bool(one == three)
    (True, False)
    """
    count = len(arrays[0])
    found: Words = np.zeros(count, np.uint64)
    sizes = [array[:1].nbytes for array in arrays]
    multipliers = [_multipliers(-(-size // 4), place << 40) for place, size in enumerate(sizes)]
    step = max(1, min(_ROWS, _BLOCK // max(*sizes, 1)))
    for begin in range(0, count, step):
        target = found[begin : begin + step]
        for array, factors in zip(arrays, multipliers, strict=True):
            # A block at a time also where an array is mapped from a file, or its rows are strided.
            _add(target, np.ascontiguousarray(array[begin : begin + step]), factors)
        target[:] = _mixed(target)
    return found


def _add(target: Words, block: NDArray[Any], multipliers: Words) -> None:
    """Add the sum over a row's words, each times its multiplier."""
    if not block.size:
        return
    raw = block.reshape(len(block), -1).view(np.uint8)
    if raw.shape[1] % 4:
        padded = np.zeros((len(block), 4 * len(multipliers)), np.uint8)
        padded[:, : raw.shape[1]] = raw
        raw = padded
    words = raw.view("<u4")
    if len(multipliers) > _NARROW:
        target += np.dot(words.astype(np.uint64), multipliers)
    else:
        for column, multiplier in enumerate(multipliers):
            target += words[:, column] * multiplier


def client_hashes(rows: Words, split: Split) -> Words:
    """A hash of each client's rows in their order, from the hashes of all rows."""
    found: Words = np.zeros(split.clients, np.uint64)
    sizes = split.sizes
    multipliers = _multipliers(int(sizes.max(initial=0)), 1 << 50)
    # Whole clients at a time, about a block of rows.
    held = np.flatnonzero(sizes)
    bounds = np.unique((np.cumsum(sizes[held]) - 1) // _ROWS, return_index=True)[1].tolist()
    for begin, end in zip(bounds, [*bounds[1:], len(held)], strict=True) if len(held) else ():
        some = held[begin:end]
        first, last = int(split.offsets[some[0]]), int(split.offsets[some[-1] + 1])
        starts = split.offsets[some] - first
        places = np.arange(last - first) - np.repeat(starts, sizes[some])
        found[some] = np.add.reduceat(rows[split.indices[first:last]] * multipliers[places], starts)
    return _mixed(found + sizes.astype(np.uint64))


def _multipliers(count: int, first: int = 0) -> Words:
    """Odd pseudo-random numbers (splitmix64): the same on every machine, and in every version of numpy."""
    state = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _mixed(state) | np.uint64(1)


def _mixed(numbers: Words) -> Words:
    """The finaliser of splitmix64, number by number: every bit depends on every bit."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
