"""Memory that this process shares with its workers, by file descriptor.

Weights in flight lie in an anonymous file in memory, client data in an unlinked file on disk. Neither
has a name, so nothing stays behind however the processes end, and `/dev/shm` (64 MB in a container)
is not used.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GRAIN = 1 << 16


class SharedFile:
    """A nameless file whose descriptor travels to spawned workers."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def in_memory(cls) -> SharedFile:
        """A file in memory (on disk, unlinked, where the system has no such thing)."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("fedhpo"))
        return cls.on_disk()

    @classmethod
    def on_disk(cls) -> SharedFile:
        """An unlinked file in the temporary directory."""
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.descriptor),)

    def close(self) -> None:
        """Close the descriptor, once; existing mappings stay valid."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:  # nobody closed it
        if not ending():  # else nothing is left to close it with, and the system does
            self.close()


def _received(descriptor: Any) -> SharedFile:
    return SharedFile(descriptor.detach())


@dataclass(frozen=True)
class Region:
    """A stretch of an arena."""

    offset: int
    length: int


class Arena:
    """Regions of one shared file, mapped on demand; the parent allocates, workers only look."""

    def __init__(self, file: SharedFile) -> None:
        self.file = file
        self._end = 0
        self._free: dict[int, list[Region]] = defaultdict(list)
        self._maps: dict[int, mmap.mmap] = {}

    def allocate(self, floats: int) -> Region:
        """Room for that many float32, of a length that recurs."""
        length = -(-floats * 4 // _GRAIN) * _GRAIN or _GRAIN
        if self._free[length]:
            return self._free[length].pop()
        region = Region(self._end, length)
        self._end += length
        os.ftruncate(self.file.descriptor, self._end)
        return region

    def release(self, region: Region) -> None:
        """Return a region for reuse."""
        self._free[region.length].append(region)

    def vector(self, region: Region, size: int) -> NDArray[np.float32]:
        """The region's first `size` numbers, shared with every process that has the file."""
        if region.offset not in self._maps:
            self._maps[region.offset] = mmap.mmap(
                self.file.descriptor, region.length, offset=region.offset, flags=mmap.MAP_SHARED
            )
        return np.frombuffer(self._maps[region.offset], np.float32, size)


@dataclass(frozen=True)
class SharedArray:
    """A read-only array in a file: one that has a path already, or our own nameless one."""

    file: SharedFile | str
    offset: int
    shape: tuple[int, ...]
    dtype: Any

    def open(self) -> NDArray[Any]:
        """Map the array, read-only."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        # A plain array: taking rows from numpy's own class for maps costs ten times as much.
        if isinstance(self.file, str):
            return np.asarray(np.memmap(self.file, self.dtype, "r", self.offset, self.shape))
        with os.fdopen(os.dup(self.file.descriptor), "rb") as file:
            return np.asarray(np.memmap(file, self.dtype, "r", self.offset, self.shape))


def _kind(dtype: np.dtype[Any]) -> Any:
    """A type that can be pickled: its name, or the fields of rows that have several."""
    return dtype.str if dtype.names is None else dtype


def share(arrays: dict[str, NDArray[Any]]) -> tuple[dict[str, SharedArray], SharedFile]:
    """Write arrays to one unnamed file on disk; arrays already mapped from a file stay where they are."""
    file = SharedFile.on_disk()
    shared = {}
    end = 0
    for name, array in arrays.items():
        # The base of a whole mapped array is the map itself; that of a part of it is another array.
        base: object = array.base
        if isinstance(array, np.memmap) and isinstance(base, mmap.mmap) and array.filename is not None:
            shared[name] = SharedArray(str(array.filename), array.offset, array.shape, _kind(array.dtype))
            continue
        array = np.ascontiguousarray(array)
        end = -(-end // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        _write(file.descriptor, array, end)
        shared[name] = SharedArray(file, end, array.shape, _kind(array.dtype))
        end += array.nbytes
    return shared, file


def _write(descriptor: int, array: NDArray[Any], offset: int) -> None:
    view = array.reshape(-1).view(np.uint8).data
    while view:
        written = os.pwrite(descriptor, view[: 1 << 30], offset)
        view, offset = view[written:], offset + written
