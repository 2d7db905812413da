"""Hold replies back, so that the time of a reply does not tell how long a client trained."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import TypeVar

from fedhpo.core.errors import InputError
from fedhpo.core.settings import is_number

T = TypeVar("T")


class Held:
    """Replies leave so many `seconds` after they were asked for, never earlier; 0 holds nothing back.

    A client that takes longer replies late, which reveals its time; it is warned.

    >>> now = [0.0]
    >>> held = Held(5.0, clock=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds))
    >>> held(lambda: now.append(now.pop() + 2.0) or "reply"), now
    ('reply', [5.0])
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not is_number(seconds) or not 0 <= seconds < float("inf"):
            raise InputError(f"hold_replies must be a number of seconds, at least 0, not {seconds!r}")
        self.seconds, self._clock, self._sleep = float(seconds), clock, sleep

    def __call__(self, reply: Callable[[], T]) -> T:
        """Wait until the reply is due, then return it."""
        if not self.seconds:
            return reply()
        begin = self._clock()
        found = reply()
        left = begin + self.seconds - self._clock()
        if left > 0:
            self._sleep(left)
        else:
            warnings.warn(
                f"a training took {-left:.1f} s longer than hold_replies = {self.seconds:g}: its late "
                "reply reveals that; raise hold_replies",
                stacklevel=2,
            )
        return found
