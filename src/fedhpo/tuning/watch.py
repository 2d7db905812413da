"""Watches a run: tells callbacks what happens, and stops it for them, for the clock and for signals."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from fedhpo.core.errors import InputError, Terminated
from fedhpo.protocol.failures import Failure, warn_of
from fedhpo.search.events import Event, StopTuning
from fedhpo.search.search import Search

#: What stops a run after the round under way, and how the record then names it.
SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
#: Warnings of failing clients, one for each reason; the result counts all of them.
_WARNINGS = 3


class Watch:
    """Tells callbacks what happens, and stops the search when one of them, the clock or a signal says so."""

    def __init__(self, callbacks: Sequence[Callable[[Event], Any]], timeout: float | None) -> None:
        if timeout is not None and not timeout > 0:
            raise InputError(f"timeout must be a positive number of seconds, not {timeout!r}")
        self._callbacks = callbacks
        self._end = None if timeout is None else time.monotonic() + timeout
        self._timeout = timeout
        self._noted = ""
        self._warned = 0

    def __call__(self, event: Event) -> None:
        asked = [callback(event) for callback in self._callbacks]
        if event.replayed:
            return
        if self._noted:
            raise StopTuning(self._noted)
        if any(answer is True for answer in asked):
            raise StopTuning("a callback asked to stop")
        if self._end is not None and time.monotonic() > self._end:
            raise StopTuning(f"the time limit of {self._timeout:g} s is over")

    def tell(self, kind: str, search: Search) -> None:
        """A last word to the callbacks; nothing is left to stop."""
        for callback in self._callbacks:
            with contextlib.suppress(StopTuning):
                callback(Event(kind, search, replayed=False))

    def warn_of(self, failure: Failure) -> None:
        """Say at once that a client failed, for the first few reasons."""
        self._warned += 1
        if self._warned <= _WARNINGS:
            more = "; result.failures counts all that fail" if self._warned == 1 else ""
            warn_of(failure, more)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM stops after the round under way; the second does what it did before.

        That is: it goes to the handler that was there when the run began, which is put back after the run.
        Python's own answer to SIGTERM, the end of the process, becomes `Terminated`, so that workers and
        files are freed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def note(number: int, frame: FrameType | None) -> None:
            if not self._noted:
                self._noted = SIGNALS[signal.Signals(number)]
                return
            handler = before[signal.Signals(number)]
            if callable(handler):
                handler(number, frame)
            else:
                raise KeyboardInterrupt if number == signal.SIGINT else Terminated

        for number, handler in before.items():
            if handler is not None:  # None: not set from Python, and could not be put back
                signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in before.items():
                if handler is not None:
                    signal.signal(number, handler)
