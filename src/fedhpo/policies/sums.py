"""Policies that can do with noisy sums by group in place of each member's score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedhpo.policies.losses import diverged
from fedhpo.protocol.federation import Floats, RoundReport

if TYPE_CHECKING:
    from fedhpo.privacy.privacy import Privacy
    from fedhpo.space import Space


@dataclass(frozen=True)
class GroupScores:
    """Members' scores in [0, 1], each member in one group (FedEx's arms).

    `before` are their scores before training, where a first baseline is made of them.
    """

    groups: NDArray[np.intp]
    values: Floats
    before: Floats | None = None


@runtime_checkable
class SumsState(Protocol):
    """One trial's policy that learns from sums by group."""

    @property
    def looks(self) -> int:
        """How often the next release will look at each member: 0 if nothing is to be learned any more."""

    def grouped(self, report: RoundReport, members: Sequence[int]) -> GroupScores:
        """What these members (places in the cohort) say, with whatever they said brought into [0, 1]."""

    def learn_sums(
        self,
        report: RoundReport,
        members: Sequence[int],
        means: Mapping[int, float],
        before: float | None,
    ) -> None:
        """Take in a release: noisy means by group over these members; none if nothing was released."""


@runtime_checkable
class SumsPolicy(Protocol):
    """A client policy whose states learn from sums by group."""

    def check_private(self, space: Space, privacy: Privacy) -> None:
        """Refuse settings that need more than these sums."""


def heard(report: RoundReport) -> list[int]:
    """The members that have a score, by who replied alone: places in the cohort.

    They hold validation data and their reply was used, or it was refused because training had diverged,
    which counts as the worst score.
    """
    scored = (report.ok & (report.validation_size > 0)) | diverged(report)
    return [int(place) for place in np.flatnonzero(scored)]
