"""A federation that keeps scores of its rounds back: for private runs.

It stands between the record and the clients. What passes on of a round, into the record and to the method, is
who replied; the scores stay here until a release has been paid for, or the next round takes their place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import (
    Answer,
    Federation,
    Ints,
    Query,
    RoundReport,
    Work,
)
from fedhpo.protocol.query import OwnQuery
from fedhpo.protocol.through import Through


class SealedFederation(Through):
    """`inner`, whose reports come without scores; `unseal` has them."""

    def __init__(self, inner: Federation) -> None:
        super().__init__(inner)
        self._kept: dict[int, RoundReport] = {}

    def unseal(self, trial: int, round: int) -> RoundReport | None:
        """The report of a trial's last round with its scores, once; None where that is gone."""
        kept = self._kept.pop(trial, None)
        return kept if kept is not None and kept.round == round else None

    def _sealed(self, report: RoundReport) -> RoundReport:
        self._kept[report.trial] = report
        unknown = np.full(len(report.cohort), math.nan)
        return replace(
            report,
            loss_before=unknown,
            loss_after=unknown,
            accuracy_before=unknown,
            accuracy_after=unknown,
            # An exception's message may quote the client's rows.
            reasons={place: reason.sealed for place, reason in report.reasons.items()},
            updates=None,
        )

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """One round of each of several trials."""
        return [self._sealed(report) for report in self.inner.round(work)]

    def next_done(self, trial: int | None = None) -> RoundReport:
        """The report of a round that has ended."""
        return self._sealed(self.inner.next_done(trial))

    def stop(self, trial: int) -> None:
        """Free the trial."""
        self._kept.pop(trial, None)
        self.inner.stop(trial)

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Work at the clients that is not a round."""
        if isinstance(task, OwnQuery):
            raise InputError(
                f"privacy: the query {task.name!r} is answered from clients' rows without noise, which "
                "epsilon would not cover: leave out [evaluation.privacy], or use another method"
            )
        return self.inner.query(task, clients)
