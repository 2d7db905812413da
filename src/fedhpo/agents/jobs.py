"""One job at a time: a command of fedhpo in a process of its own, below the root."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fedhpo.core.errors import InputError


@dataclass
class Job:
    """A command under way, or done."""

    what: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]
    reserved: int
    #: Rounds of one training, where its answer tells trainings.
    each: int = 1

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def answer(self) -> dict[str, Any]:
        """What it printed: one JSON object, or an error."""
        self.output.seek(0)
        lines = self.output.read().decode("utf-8", "replace").strip().splitlines()
        try:
            found = json.loads(lines[-1])
        except (ValueError, IndexError):
            self.errors.seek(0)
            told = self.errors.read().decode("utf-8", "replace").strip()[-500:]
            return {"error": told or f"the command ended with code {self.process.returncode}"}
        return found if isinstance(found, dict) else {"error": "no object was printed"}


class Jobs:
    """Starts jobs, one at a time; one that takes too long is ended, whether anybody asks or not."""

    def __init__(self, root: Path, seconds: float) -> None:
        self._root, self._seconds, self._lock = root, seconds, threading.Lock()
        self.current: Job | None = None

    def start(self, what: str, arguments: Sequence[str], reserved: int, each: int) -> Job:
        """Begin a command; refused while another one runs."""
        with self._lock:
            if self.current is not None and self.current.running:
                raise InputError(
                    f"{self.current.what} is still running, and one job runs at a time: call `status` until "
                    "it has ended"
                )
            self._forget()
            output, errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  they outlive this
            process = subprocess.Popen(
                [sys.executable, "-m", "fedhpo", *arguments],
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
            job = self.current = Job(what, process, output, errors, reserved, each)
            self._alarm = threading.Timer(self._seconds, self.end, [job])
            self._alarm.daemon = True
            self._alarm.start()
            return job

    def wait(self, job: Job, seconds: float) -> bool:
        """Wait for its end, at most so long."""
        try:
            job.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self, job: Job) -> None:
        """Stop a job in order, then at once."""
        if job.running:
            job.process.terminate()
            try:
                job.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                job.process.kill()
                job.process.wait()

    def close(self) -> None:
        """End what runs."""
        if self.current is not None:
            self.end(self.current)
        self._forget()

    def _forget(self) -> None:
        if self.current is not None:
            self._alarm.cancel()
            self.current.output.close()
            self.current.errors.close()
            self.current = None
