"""Signals of the command line: Ctrl-C and SIGTERM end a command without a traceback.

While a run is tuned the first signal is the run's: it stops after the round under way. The next, and the
first anywhere else, ends the command at once but in order: workers and files are freed. One more ends the
process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

from fedhpo.core.errors import Terminated

_SHOW_CURSOR = "\x1b[?25h"


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Handle both signals as the module says, and neither after the block: the process is about to end."""
    numbers, seen = (signal.SIGINT, signal.SIGTERM), [0]

    def handle(number: int, _: object) -> None:
        seen[0] += 1
        if seen[0] > 1:
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)  # a live display hides it
                sys.stderr.flush()
            os._exit(128 + number)  # worker processes end with their parent
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Terminated

    for number in numbers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)


def exit_code(stop: KeyboardInterrupt | SystemExit) -> int:
    """130 after Ctrl-C, 143 after SIGTERM; another program's own end, such as `sys.exit`, is not ours."""
    if isinstance(stop, SystemExit) and stop.code != 128 + signal.SIGTERM:
        raise stop
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated | SystemExit) else signal.SIGINT)
