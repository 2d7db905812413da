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
#: Exit code of a process that SIGTERM ended, as a shell gives it.
TERMINATED = 128 + signal.SIGTERM
#: Warnings of failing clients, one for each reason; the result counts all of them.
_WARNINGS = 3


class Watch:
    """Tells callbacks what happens, and stops the search when one of them, the clock or a signal says so."""

    def __init__(
        self,
        callbacks: Sequence[Callable[[Event], Any]],
        timeout: float | None,
        on_interrupt: str = "raise",
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise InputError(f"timeout must be a positive number of seconds, not {timeout!r}")
        self._callbacks = callbacks
        self._end = None if timeout is None else time.monotonic() + timeout
        self._timeout = timeout
        self._on_interrupt = on_interrupt
        self._noted: signal.Signals | None = None
        self._searching = False
        self._before: dict[signal.Signals, Any] = {}
        self._warned = 0

    def __call__(self, event: Event) -> None:
        asked = [callback(event) for callback in self._callbacks]
        if event.replayed:
            return
        if self._noted is not None:
            raise StopTuning(SIGNALS[self._noted])
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

    def begin(self) -> None:
        """The search begins: from now on the first signal waits for the end of the round under way."""
        self._searching = True

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM for the block, and hand on, after it, the one that stopped the search.

        Whoever handled the signal before the call decides what it means to the program. Python's own answers
        are `KeyboardInterrupt` and, to SIGTERM, the end of the process: here `SystemExit` with code 143, so
        that files and workers are freed. Ctrl-C is not handed on where the caller asked for the result.

        Before the search begins, and once a signal was noted, a signal is handed on at once. A signal that
        the program ignores stays ignored. Outside the main thread Python takes no handlers.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # None: not set from Python, and could not be put back.
        found = {number: signal.getsignal(number) for number in SIGNALS}
        self._before = {n: one for n, one in found.items() if one not in (None, signal.SIG_IGN)}
        for number in self._before:
            signal.signal(number, self._take)
        try:
            yield
        except KeyboardInterrupt as stop:
            self._noted = None  # it is on its way already
            if isinstance(stop, Terminated) and self._before.get(signal.SIGTERM) is signal.SIG_DFL:
                raise SystemExit(TERMINATED) from stop
            raise
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self._hand_on()

    def _take(self, number: int, frame: FrameType | None) -> None:
        noted = signal.Signals(number)
        handler = self._before[noted]
        first = self._noted is None and self._searching
        if first:
            self._noted = noted
        if first and not _is_watch(handler):
            return
        if callable(handler):  # of a search around this one: it counts the same signals
            handler(number, frame)
        else:
            raise KeyboardInterrupt if noted == signal.SIGINT else Terminated

    def _hand_on(self) -> None:
        noted, self._noted = self._noted, None
        if noted is None or (noted == signal.SIGINT and self._on_interrupt == "return"):
            return
        handler = self._before[noted]
        if _is_watch(handler):  # has it already
            return
        if callable(handler):
            handler(noted, None)
        elif noted == signal.SIGTERM:
            raise SystemExit(TERMINATED)
        else:
            raise KeyboardInterrupt


def _is_watch(handler: Any) -> bool:
    return isinstance(getattr(handler, "__self__", None), Watch)
