"""Stopping and resuming runs from the page, for whoever has the token."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fedhpo.core.errors import InputError
from fedhpo.run.lock import is_held
from fedhpo.run.run import LOCK


@dataclass
class Control:
    """May stop the process that holds a run, and start one that goes on with it."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    _children: dict[str, tuple[subprocess.Popen[bytes], IO[Any]]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def stop(self, path: Path) -> str:
        """Ask the process that holds the run to stop after the round under way."""
        holder = _holder(path)
        try:
            os.kill(holder, signal.SIGTERM)
        except OSError as error:
            raise InputError(f"process {holder} cannot be stopped from here: {error.strerror}") from None
        return f"asked process {holder} to stop after the round under way"

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


def _holder(path: Path) -> int:
    """The process that holds the run's lock; it wrote its number there."""
    file = path / LOCK
    if not is_held(file):
        raise InputError(f"no process works on run {path.name}")
    text = file.read_text(encoding="ascii", errors="replace").strip()
    if not text.isdigit() or int(text) <= 1:
        raise InputError(f"{file} does not name the process that holds it")
    return int(text)
