"""Verdicts: whether a claim holds, does not, or cannot be told from what was measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedhpo_papers.shared.estimates import estimates, summary
from fedhpo_papers.shared.forest import Estimate
from fedhpo_papers.shared.tables import Mean, markdown

HOLDS, DOES_NOT, UNDECIDED = "holds", "does not hold", "undecided"


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper, what it reports, what was measured here, and what follows."""

    claim: str
    paper: str
    here: str
    verdict: str

    @property
    def estimates(self) -> list[Estimate]:
        """What was measured, case by case, where it is differences."""
        return estimates(self.here, self.paper)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def above(measured: Mean, threshold: float) -> str:
    """Whether the mean is above the threshold, by two standard errors; one seed alone decides nothing.

    >>> above(Mean(0.5, 0.1, 5), 0.2), above(Mean(0.5, 0.1, 5), 0.4), above(Mean(0.5, 0.1, 5), 0.8)
    ('holds', 'undecided', 'does not hold')
    """
    if measured.count < 2:
        return UNDECIDED
    if measured.low > threshold:
        return HOLDS
    return DOES_NOT if measured.high < threshold else UNDECIDED


def opposite(verdict: str) -> str:
    """The verdict on the negation."""
    return {HOLDS: DOES_NOT, DOES_NOT: HOLDS}.get(verdict, UNDECIDED)


def all_of(verdicts: list[str]) -> str:
    """The verdict on a claim that takes several: one that fails is enough to refute it.

    >>> all_of(["holds", "undecided"]), all_of(["holds", "does not hold"])
    ('undecided', 'does not hold')
    """
    if DOES_NOT in verdicts:
        return DOES_NOT
    return HOLDS if verdicts and set(verdicts) == {HOLDS} else UNDECIDED


def any_of(verdicts: list[str]) -> str:
    """The verdict on a claim for which one of several is enough."""
    return opposite(all_of([opposite(verdict) for verdict in verdicts]))


def table(verdicts: list[Verdict]) -> str:
    """All verdicts in Markdown; what was measured in many cases is counted, and drawn beside the page."""
    rows = [[v.claim, f"**{v.verdict}**", v.paper, _measured(v)] for v in verdicts]
    return markdown(["claim", "verdict", "paper", "here"], rows)


def _measured(verdict: Verdict) -> str:
    found = verdict.estimates
    return summary(found) if len(found) > 3 else verdict.here.strip()
