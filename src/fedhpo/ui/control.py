"""Stopping and resuming runs from the page."""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fedhpo.core.errors import InputError
from fedhpo.run.lock import Holder, holder_of, is_held
from fedhpo.run.run import LOCK


@dataclass
class Control:
    """May stop the process that holds a run, and start one that goes on with it."""

    _children: dict[str, tuple[subprocess.Popen[bytes], IO[Any]]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def stop(self, path: Path) -> str:
        """Ask the process that holds the run to stop after the round under way."""
        holder = _holder(path)
        try:
            _terminate(holder)
        except OSError as error:
            raise InputError(f"{holder} cannot be stopped from here: {error.strerror}") from None
        return f"asked process {holder.pid} to stop after the round under way"

    def resume(self, name: str, path: Path) -> str:
        """Go on with the run in a process of its own, which outlives this page."""
        with self._lock:
            if is_held(path / LOCK):
                raise InputError(f"run {name} is under way already")
            # Its words go to a file without a name: the page shows the last of them if it fails.
            said = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the child is known)
            command = [sys.executable, "-m", "fedhpo", "resume", str(path), "--quiet"]
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
            self._children[name] = child, said
        return f"resumed by process {child.pid}"

    def note(self, name: str) -> str:
        """Why the run could not be resumed; empty if it was, or nobody asked."""
        with self._lock:
            if name not in self._children:
                return ""
            child, said = self._children[name]
            code = child.poll()
            if code in (None, 0, 128 + signal.SIGINT, 128 + signal.SIGTERM):
                return ""
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            return lines[-1][:300] if lines else f"the process ended with code {code}"


def _holder(path: Path) -> Holder:
    """The process that holds the run's lock, if it is surely the one that wrote its name there."""
    file = path / LOCK
    if not is_held(file):
        raise InputError(f"no process works on run {path.name}")
    holder = holder_of(file)
    if holder is None:
        raise InputError(f"{file} does not name the process that holds it: stop that process yourself")
    if isinstance(holder, int):
        raise InputError(
            f"{file} names process {holder}, but neither its host nor its start, as an earlier version wrote "
            f"it: if that is the run's process, stop it with kill {holder}"
        )
    if holder.host != platform.node():
        raise InputError(f"run {path.name} is held by {holder}: stop it there, with kill {holder.pid}")
    if not holder.is_here:
        raise InputError(
            f"run {path.name} is held, but {holder} of its lock has ended and its number may be another's "
            f"now: find the run's process, as with fuser {file}, and stop it"
        )
    return holder


def _terminate(holder: Holder) -> None:
    """Send SIGTERM to this process and to no other that got its number meanwhile."""
    if not hasattr(os, "pidfd_open"):
        os.kill(holder.pid, signal.SIGTERM)
        return
    descriptor = os.pidfd_open(holder.pid)
    try:
        if not holder.is_here:  # it ended before the descriptor was taken
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    finally:
        os.close(descriptor)
