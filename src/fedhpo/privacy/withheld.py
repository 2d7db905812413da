"""A federation that keeps scores of its rounds back: for private runs.

It stands between the record and the clients. What passes on of a round, into the record and to the method, is
who replied; the scores stay here until a release has been paid for, or the next round takes their place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.user_code import without_message
from fedhpo.protocol.failures import TOO_LARGE
from fedhpo.protocol.federation import (
    Answer,
    Federation,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialState,
    Work,
)
from fedhpo.protocol.query import OwnQuery

#: Reasons that the server itself finds, which tell nothing but that an update cannot be used.
KNOWN_REASONS = frozenset(
    {
        "update is not finite",
        "updates are so large that the model after them is not finite",
        "no update came",
        TOO_LARGE,
        "the update is not finite, as when the table was built",
    }
)


class SealedFederation(Federation):
    """`inner`, whose reports come without scores; `unseal` has them."""

    def __init__(self, inner: Federation) -> None:
        self.inner = inner
        self.capabilities = inner.capabilities
        self.train_clients = inner.train_clients
        self.validation_clients = inner.validation_clients
        self.test_clients = inner.test_clients
        self._kept: dict[int, RoundReport] = {}

    def unseal(self, trial: int, round: int) -> RoundReport | None:
        """The report of a trial's last round with its scores, once; None where that is gone."""
        kept = self._kept.pop(trial, None)
        return kept if kept is not None and kept.round == round else None

    def _sealed(self, report: RoundReport) -> RoundReport:
        self._kept[report.trial] = report
        unknown = np.full(len(report.cohort), math.nan)
        # An exception's message may quote the client's rows.
        reasons = {
            place: why
            if report.status[place] == Status.MISSING or why in KNOWN_REASONS
            else without_message(why)
            for place, why in report.reasons.items()
        }
        return replace(
            report,
            loss_before=unknown,
            loss_after=unknown,
            accuracy_before=unknown,
            accuracy_after=unknown,
            reasons=reasons,
            updates=None,
        )

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """One round of each of several trials."""
        return [self._sealed(report) for report in self.inner.round(work)]

    def next_done(self, trial: int | None = None) -> RoundReport:
        """The report of a round that has ended."""
        return self._sealed(self.inner.next_done(trial))

    # All else as it is

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A fresh model."""
        self.inner.start(trial, model, seed)

    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`."""
        self.inner.fork(source, target)

    def mix(self, source: int, target: int, share: float) -> None:
        """Move `target` towards `source`."""
        self.inner.mix(source, target, share)

    def stop(self, trial: int) -> None:
        """Free the trial."""
        self._kept.pop(trial, None)
        self.inner.stop(trial)

    def submit(self, work: Work) -> None:
        """Begin a round."""
        self.inner.submit(work)

    def ready(self) -> list[int]:
        """Trials whose round has ended."""
        return self.inner.ready()

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores without training: asked beside the record, by who pays for them."""
        return self.inner.evaluate(trials, clients, split)

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Work at the clients that is not a round."""
        if isinstance(task, OwnQuery):
            raise InputError(
                f"privacy: the query {task.name!r} is answered from clients' rows without noise, which "
                "epsilon would not cover: leave out [evaluation.privacy], or use another method"
            )
        return self.inner.query(task, clients)

    def state(self, trial: int) -> TrialState:
        """The trial's state."""
        return self.inner.state(trial)

    def restore(self, trial: int, state: TrialState) -> None:
        """Bring a trial back."""
        self.inner.restore(trial, state)

    def describe(self) -> dict[str, Any]:
        """The facts of `inner`."""
        return self.inner.describe()

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """That of `inner`."""
        return self.inner.fingerprint(model)

    def distances(self, clients: Sequence[int] | Ints, seed: int) -> dict[str, Any] | None:
        """Those of `inner`."""
        return self.inner.distances(clients, seed)

    @property
    def trials(self) -> Sequence[int]:
        """The trials started and not stopped."""
        return self.inner.trials

    def close(self) -> None:
        """Close `inner`."""
        self.inner.close()
