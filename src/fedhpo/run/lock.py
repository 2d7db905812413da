"""One process per run: a lock that the kernel lets go of, however the process ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from fedhpo.core.run_errors import RunError, trouble_at

# `is_held` takes the lock for an instant; an opener that meets it there tries again.
_TRIES, _PAUSE = 4, 0.05


class Lock:
    """An exclusive lock on a file, held from creation until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        with trouble_at(path, "cannot lock"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with trouble_at(path, "cannot lock"):
                self._take(path)
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _take(self, path: Path) -> None:
        for attempt in range(_TRIES):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if attempt < _TRIES - 1:
                    time.sleep(_PAUSE)
        holder = os.pread(self._descriptor, 32, 0).decode(errors="replace") or "unknown"
        raise RunError(
            f"run {path.parent} is in use by another process (pid {holder}): wait until it ends, or stop it"
        )

    def release(self) -> None:
        """Let the next process in. The file stays: deleting it would let two in at once."""
        os.close(self._descriptor)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)
