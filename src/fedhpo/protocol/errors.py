"""Errors of trials and of clients; `fedhpo.errors` shows the whole tree."""

from __future__ import annotations

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.protocol.reasons import Reason, as_reason

_PUBLIC = "fedhpo.errors"  # where users find them, also in tracebacks


class PreflightError(InputError):
    """Training or scoring would fail; the message says why, quotes the exception and says what to write."""

    __module__ = _PUBLIC

    def __init__(self, what: str, instead: str = "") -> None:
        super().__init__(f"{what}\n  write instead: {instead}" if instead else what)


class FrozenChanged(InputError):
    """A training changed what all trials share: the frozen part of a model."""

    __module__ = _PUBLIC


class TrialError(InputError):
    """A call names a trial that was not started, or that was stopped."""

    __module__ = _PUBLIC


class TuningError(FedhpoError):
    """No trial of the search could be trained."""

    __module__ = _PUBLIC


class ClientError(FedhpoError):
    """What a client did, or sent, cannot be used. A run goes on without it, and counts it as a failure."""

    __module__ = _PUBLIC


class Rejected(ClientError):
    """A reply that must not be used; the message says why."""

    __module__ = _PUBLIC


class TaskFailed(ClientError):
    """The client says that it failed; `reason` says why."""

    __module__ = _PUBLIC

    def __init__(self, reason: Reason | str) -> None:
        super().__init__(str(reason))
        self.reason = as_reason(reason, failed=True)


class TaskMissing(ClientError):
    """The client says that it was not done in time; `reason` says why."""

    __module__ = _PUBLIC

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class StrategyFailed(ClientError):
    """A Flower strategy made no model of the replies; the message says why."""

    __module__ = _PUBLIC


class CollectiveError(ClientError):
    """Joint training of boosted trees did not end; `party` is the one to blame, if it is known."""

    __module__ = _PUBLIC

    def __init__(self, message: str, party: int | None = None) -> None:
        super().__init__(message)
        self.party = party


class NotTrees(ClientError, ValueError):
    """The bytes that a client sent are not boosted trees that can be used; the message says why."""

    __module__ = _PUBLIC
