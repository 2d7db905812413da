"""The trials of a federation by number, and their rounds under way: what may be asked of which, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from fedhpo.protocol.federation import TrialError, Work

T = TypeVar("T")
R = TypeVar("R")


class TrialTable(Generic[T, R]):
    """What every federation keeps of its trials, whatever a trial or a round is to it.

    >>> table = TrialTable[str, Work]()
    >>> table.add(0, "a model")
    >>> table.rounds[0] = Work(0, [1, 2], {"lr": 0.1})
    >>> table.stop(0)
    Traceback (most recent call last):
    ...
    fedhpo.errors.TrialError: trial 0 is in the middle of a round
    """

    def __init__(self) -> None:
        self._trials: dict[int, T] = {}
        #: Rounds submitted and not reported yet, by trial.
        self.rounds: dict[int, R] = {}

    @property
    def numbers(self) -> Sequence[int]:
        """Trials started and not stopped, in ascending order."""
        return sorted(self._trials)

    def __getitem__(self, trial: int) -> T:
        if trial not in self._trials:
            raise TrialError(f"trial {trial} is not there: it was not started, or was stopped")
        return self._trials[trial]

    def __setitem__(self, trial: int, one: T) -> None:
        self._trials[trial] = one

    def new(self, trial: int) -> None:
        """Refuse a trial that is there already."""
        if trial in self._trials:
            raise TrialError(f"trial {trial} has been started already")

    def add(self, trial: int, one: T) -> None:
        """A trial that was not there before."""
        self.new(trial)
        self[trial] = one

    def idle(self, *trials: int) -> None:
        """Refuse trials that are in the middle of a round."""
        for trial in trials:
            if trial in self.rounds:
                raise TrialError(f"trial {trial} is in the middle of a round")

    def stop(self, trial: int) -> None:
        """Forget a trial."""
        _ = self[trial]
        self.idle(trial)
        del self._trials[trial]

    def clear(self) -> None:
        """Forget all."""
        self._trials.clear()
        self.rounds.clear()

    @staticmethod
    def apart(works: Sequence[Work]) -> None:
        """Refuse two rounds of one trial at the same time."""
        numbers = [work.trial for work in works]
        if len(set(numbers)) < len(numbers):
            raise TrialError(f"one round per trial at a time: found work for the trials {numbers}")

    def submitted(self, trial: int | None) -> None:
        """Refuse to wait for a round of this trial, or of any, that was not submitted."""
        if not self.rounds or (trial is not None and trial not in self.rounds):
            raise TrialError("no round was submitted" + ("" if trial is None else f" for trial {trial}"))


class HoldsTable:
    """A federation that keeps its trials in a table."""

    _trials: TrialTable[Any, Any]

    def stop(self, trial: int) -> None:
        """Forget a trial."""
        self._trials.stop(trial)

    @property
    def trials(self) -> Sequence[int]:
        """Trials started and not stopped, in ascending order."""
        return self._trials.numbers
