"""Decoded data kept on disk, so that images and text are decoded once.

One directory an entry, one `.npy` file an array, opened as memory maps: processes on one machine share
the pages. `FEDHPO_CACHE` names the place, `~/.cache/fedhpo` by default; it may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fedhpo.data.container import Array

FORMAT = 1
"""To be raised whenever the decoded form of any data set changes."""


def cache_directory() -> Path:
    """Where decoded data is kept."""
    return Path(os.environ.get("FEDHPO_CACHE") or Path.home() / ".cache" / "fedhpo")


def cached(
    name: str, source: Path, options: Mapping[str, object], build: Callable[[], dict[str, Array]]
) -> dict[str, Array]:
    """The arrays that `build` makes of `source`, from the cache if they are there.

    An entry belongs to the source's size and time of change and to the options. It is written aside and
    renamed, so that another process sees all of it or nothing.
    """
    entry = cache_directory() / f"{name}-{_key(source, options)}"
    found = _read(entry)
    if found is not None:
        return found
    arrays = build()
    try:
        _write(entry, arrays)
    except OSError as error:
        warnings.warn(
            f"cannot keep decoded {name} in {entry.parent} ({error}); it is decoded anew each time. "
            "Set FEDHPO_CACHE to a directory that can be written",
            stacklevel=2,
        )
        return arrays
    return _read(entry) or arrays


def _key(source: Path, options: Mapping[str, object]) -> str:
    state = source.stat()
    facts = (FORMAT, source.name, state.st_size, state.st_mtime_ns, sorted(options.items()))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _read(entry: Path) -> dict[str, Array] | None:
    if not entry.is_dir():
        return None
    try:
        return {
            file.stem: np.load(file, mmap_mode="r", allow_pickle=False)
            for file in sorted(entry.glob("*.npy"))
        } or None
    except (OSError, ValueError, EOFError):
        return None  # damaged: it is built anew


def _write(entry: Path, arrays: Mapping[str, Array]) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{entry.name}-", dir=entry.parent))
    try:
        for name, array in arrays.items():
            with (aside / f"{name}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
        try:
            aside.rename(entry)
        except OSError:
            # Another process was faster (its entry is as good), or a damaged entry is in the way.
            if _read(entry) is None:
                entry.rename(aside / "damaged")
                shutil.rmtree(aside / "damaged")
                aside.rename(entry)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
