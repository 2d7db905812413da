"""Processes to be killed: started like a user's, or forked from this one, which has imported all already.

A Python that imports torch takes seconds to start. So most processes are forks of the harness (`warm`), a
stated share is `python -m fedhpo` (`real`). Each has a session of its own, by which its processes are found.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

#: One thread in the harness: forks of a process with several may hang.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
#: The sessions started by this process that have not been waited for.
LIVE: set[int] = set()
_TOP = ("fedhpo", "torch", "sklearn", "scipy", "plotly", "numpy", "safetensors", "rich", "pydantic")


@dataclass
class Process:
    """A running command, the leader of its session; its output goes to files."""

    pid: int
    output: Path
    errors: Path
    code: int | None = None
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        LIVE.add(self.pid)

    def poll(self) -> int | None:
        """The exit code once it has ended, negative for a signal."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                LIVE.discard(self.pid)
        return self.code

    def shoot(self, number: int, group: bool) -> bool:
        """Send a signal to all of its processes, or to the leader alone; False if it had ended."""
        if self.poll() is not None:
            return False
        (os.killpg if group else os.kill)(self.pid, number)
        return True

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None if it is still running after so many seconds."""
        end = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        return self.code

    @property
    def said(self) -> str:
        """What it wrote to standard error."""
        return self.errors.read_text(errors="replace") if self.errors.is_file() else ""

    @property
    def told(self) -> str:
        """What it wrote to standard output."""
        return self.output.read_text(errors="replace") if self.output.is_file() else ""


def start(arguments: list[str], folder: Path, *, real: bool) -> Process:
    """Run `fedhpo ARGUMENTS` in `folder`, whose `tmp` is its temporary directory."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    output, errors = folder / "stdout", folder / "stderr"
    if real:
        environment = {key: value for key, value in os.environ.items() if key not in ONE_THREAD}
        with output.open("wb") as out, errors.open("wb") as err:
            started = subprocess.Popen(
                [sys.executable, "-m", "fedhpo", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=environment | {"TMPDIR": str(temporary)},
                start_new_session=True,
            )
        started.returncode = 0  # this class waits for it, `Popen` must not
        return Process(started.pid, output, errors)
    output.write_bytes(b"")
    errors.write_bytes(b"")
    pid = os.fork()
    if pid == 0:
        _be_the_command(arguments, folder, output, errors)
    while not _leads(pid):  # a signal to the group would find none
        time.sleep(0.0001)
    return Process(pid, output, errors)


def _leads(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return True


def _be_the_command(arguments: list[str], folder: Path, output: Path, errors: Path) -> None:
    """In the fork: become what `python -m fedhpo` would be, and end as it would."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for number, path in enumerate((os.devnull, output, errors)):
            descriptor = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND)
            os.dup2(descriptor, number)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False))
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "wb", closefd=False), write_through=True)
        os.chdir(folder)
        os.environ["TMPDIR"] = str(folder / "tmp")
        tempfile.tempdir = None
        sys.argv = ["fedhpo", *arguments]
        from fedhpo.cli import main

        code = main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
        os._exit(code)


def warm_up(study: Path, folder: Path) -> None:
    """Import what a run imports: one study is tuned in a fork, which tells its modules."""
    for name in (
        "fedhpo.cli.tune",
        "fedhpo.cli.resume",
        "fedhpo.cli.report",
        "fedhpo.tuning.tune",
        "fedhpo.report",
    ):
        importlib.import_module(name)
    names = folder / "modules.json"
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(folder)
            from fedhpo.cli import main

            with contextlib.redirect_stdout(io.StringIO()):
                main(["tune", str(study), "--workers", "0", "--quiet"])
            names.write_text(json.dumps([name for name in sys.modules if name.split(".")[0] in _TOP]))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    for name in json.loads(names.read_text()):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise SystemExit(f"the harness has {threads} threads: it could not be forked safely")


def left_of(session: int) -> list[int]:
    """The processes of a session that are still there; those that have ended and wait for init are not."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = Path(f"/proc/{name}/stat").read_text()
                state, _, _, sid = text[text.rindex(")") + 2 :].split()[:4]
                if int(sid) == session and state not in "ZX":
                    found.append(int(name))
    return found


def end(pids: Iterable[int]) -> None:
    """End processes that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def own_shared_memory() -> bool:
    """Give this process and its children a `/dev/shm` of their own; False where the system does not allow it.

    Others at work on the machine have segments too. Without this, only names that we could have given count.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    mounts, ipc = 0x00020000, 0x08000000
    if libc.unshare(mounts | ipc):
        return False
    private_and_below = 0x40000 | 0x4000
    libc.mount(b"none", b"/", None, private_and_below, None)
    return bool(libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, None) == 0)


def segments(ours: bool) -> set[str]:
    """Shared memory by name: POSIX segments and semaphores, System V segments.

    Where `/dev/shm` is shared with others, those that look like Python's or torch's.
    """
    found = {f"/dev/shm/{entry.name}" for entry in os.scandir("/dev/shm") if ours or _ours(entry)}
    if ours:
        system = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        found |= {f"sysv {line.split()[1]}" for line in system if line.split()}
    return found


def _ours(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        return entry.is_file() and entry.name.startswith(("psm_", "torch_", "sem.", "fedhpo", "pymp"))
    return False


def unused(names: set[str]) -> set[str]:
    """Those of the segments that no living process has mapped: others at work here keep theirs."""
    used = ""
    for name in os.listdir("/proc") if names else ():
        if name.isdigit():
            with contextlib.suppress(OSError):
                used += Path(f"/proc/{name}/maps").read_text()
    return {name for name in names if name.startswith("sysv") or (os.path.exists(name) and name not in used)}
