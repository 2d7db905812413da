"""One process per run: a lock that the kernel releases however the process ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import stat
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from fedhpo.core.run_errors import RunError, trouble_at

# `is_held` takes the lock for an instant; an opener that meets it there tries again.
_TRIES, _PAUSE = 4, 0.05
#: The most that a lock's file holds.
_LONGEST = 1000


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock: its number, its machine, and when it started.

    Numbers are used again. Number and start together name one process of a machine.
    """

    pid: int
    host: str
    started: str

    @classmethod
    def here(cls) -> Holder:
        """This process."""
        return cls(os.getpid(), platform.node(), started(os.getpid()))

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine that still runs."""
        return self.host == platform.node() and self.started == started(self.pid) != ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def started(pid: int) -> str:
    """When a process started: in ticks since boot on Linux, elsewhere as `ps` says it; empty if unknown."""
    with contextlib.suppress(OSError, IndexError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # The second field, the program's name in brackets, may hold anything.
        told = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return f"{boot} {told[19].decode()}"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        environment = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.environ.get("PATH", os.defpath)}
        told_by = subprocess.run(command, capture_output=True, env=environment, text=True, timeout=5)
        return told_by.stdout.strip()
    return ""


class Lock:
    """An exclusive lock on a file, held from creation until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        with trouble_at(path, "cannot lock"):
            if path.exists() and not path.is_file():
                raise OSError(0, "it is not a file: remove it")
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o644)
        try:
            with trouble_at(path, "cannot lock"):
                self._take(path)
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, json.dumps(asdict(Holder.here())).encode(), 0)
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
        holder = _named(os.pread(self._descriptor, _LONGEST, 0))
        who = f"pid {holder or 'unknown'}"
        if isinstance(holder, Holder):
            who = f"pid {holder.pid}" + (f" on {holder.host}" if holder.host != platform.node() else "")
        raise RunError(
            f"run {path.parent} is in use by another process ({who}): wait until it ends, or stop it"
        )

    def release(self) -> None:
        """Let the next process in. The file stays: deleting it would let two in at once."""
        os.close(self._descriptor)


def holder_of(path: Path) -> Holder | int | None:
    """The process that holds the lock (only its id if an older version wrote it), or None."""
    try:
        return _named(path.read_bytes()[:_LONGEST]) if path.is_file() else None
    except OSError:
        return None


def _named(content: bytes) -> Holder | int | None:
    try:
        found = json.loads(content)
        if isinstance(found, dict):
            found = Holder(int(found["pid"]), str(found["host"]), str(found["started"]))
        pid = found if isinstance(found, int) else found.pid
        return found if pid > 1 else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def is_held(path: Path) -> bool:
    """Whether a process holds the lock. Anything but a regular file, such as a named pipe, is not opened."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)
