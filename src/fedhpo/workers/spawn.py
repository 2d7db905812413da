"""Starting worker processes: single-threaded, spawned, and gone with their parent."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import pickle
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import connection, get_context, process, reduction, resource_tracker
from typing import Any

_STARTED: weakref.WeakSet[Any] = weakref.WeakSet()
_EARLY: list[tuple[Any, connection.Connection]] = []
#: Exit code of a worker whose main script has no main guard.
UNGUARDED = 77
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def spawn(
    main: Callable[..., None], *arguments: Any, script: bool = False
) -> tuple[Any, connection.Connection]:
    """A process that runs `main(pipe, *arguments)`, and the other end of its pipe.

    The user's script is imported there only if `script` says that the arguments need something of it. If not,
    a process that `begin_early` started takes it on.
    """
    while _EARLY and not script:
        worker, ours = _EARLY.pop()
        with contextlib.suppress(OSError):  # it has ended since
            ours.send_bytes(_pickled((sys.path, main, arguments)))
            return worker, ours
    return _started(main, *arguments, script=script)


def begin_early(count: int, *modules: str) -> None:
    """Start processes that import modules while this one has other things to do.

    `spawn` hands them out. Those that are left over end with `end_early`, or with this process.
    """
    _EARLY.extend(_started(_wait, modules) for _ in range(count))


def end_early() -> None:
    """End the processes that nobody needed."""
    while _EARLY:
        worker, pipe = _EARLY.pop()
        worker.kill()
        pipe.close()


def _wait(pipe: connection.Connection, modules: tuple[str, ...]) -> None:
    """The main function of a process that began early: what it is for comes from its parent."""
    for module in modules:
        with contextlib.suppress(ImportError):  # said by the one who needs it
            importlib.import_module(module)
    sys.path[:], main, arguments = pickle.loads(pipe.recv_bytes())  # our own parent's
    main(pipe, *arguments)


def _pickled(value: Any) -> bytes:
    """Pickle as for a process's start arguments, including file descriptors."""
    return bytes(reduction.ForkingPickler.dumps(value))


def _started(
    main: Callable[..., None], *arguments: Any, script: bool = False
) -> tuple[Any, connection.Connection]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_begin, args=(main, theirs, *arguments), daemon=True)
    own = contextlib.nullcontext() if script else _without_script()
    with _single_threaded(), _no_signals(), own:
        worker.start()
    _STARTED.add(worker)
    theirs.close()
    return worker, ours


@atexit.register
def _kill_started() -> None:
    """Before Python's own end, which sends workers a SIGTERM, that they ignore, and waits for them."""
    for worker in list(_STARTED):
        with contextlib.suppress(ValueError):  # closed already
            worker.kill()


def _begin(main: Callable[..., None], *arguments: Any) -> None:
    _follow_parent()
    main(*arguments)


def _follow_parent() -> None:
    """Called in a worker: ignore the signals that stop a run, and end when the parent does.

    Ctrl-C and a scheduler's SIGTERM reach the whole process group: when to stop is the parent's affair.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit at once when the parent exits, however it ends, even during training."""
    parent = process.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def of_the_script(*arguments: Any) -> bool:
    """Whether the arguments hold something that the main script defines."""
    return b"__main__" in pickle.dumps(arguments)


def main_is_a_file() -> bool:
    """Whether a worker can import the main script; code typed into a session cannot be imported."""
    main = sys.modules["__main__"]
    named = getattr(main, "__spec__", None) is not None
    return named or os.path.isfile(getattr(main, "__file__", None) or "")


def refuse_in_worker() -> None:
    """End a worker that is importing a script without main guard, before it does the script's work."""
    if getattr(process.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)


@contextlib.contextmanager
def _single_threaded() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    """Start workers with SIGINT and SIGTERM blocked, from the first."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # would unblock them again, were it started in here
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_script() -> Iterator[None]:
    """Keep workers from importing the main script where they need nothing of it."""
    facts = vars(sys.modules["__main__"])
    names: tuple[str, ...] = ("__spec__", "__file__")
    before = {name: facts.pop(name) for name in names if name in facts}
    facts["__spec__"] = None
    try:
        yield
    finally:
        facts.update(before)


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Keep glibc from giving memory back after every batch: page faults cost up to 1.4x on an LSTM."""
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(trim_threshold, 1 << 25)
        libc.mallopt(mmap_threshold, 1 << 25)
