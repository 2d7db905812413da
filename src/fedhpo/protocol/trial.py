"""`Trial`: what a trial under way and one in a result have in common."""

from __future__ import annotations

from typing import Any

from fedhpo.space.config import Config


class Trial:
    """One config in training.

    A callback finds trials under way in `event.trials`; their `score` has `value`, `standard_error` and
    `round`. Those in `result.trials` have ended; their `score` is the number.
    """

    number: int
    config: Config
    #: "training", "finished", "eliminated" or "failed".
    status: str
    #: Why it failed.
    reason: str
    #: How many rounds its model has behind it.
    round: int

    @property
    def score(self) -> Any:
        """Its latest score; None without one."""
        raise NotImplementedError
