"""How a page begins: what the paper did, what was run here, what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedhpo_papers.shared.verdicts import DOES_NOT, HOLDS, UNDECIDED, Verdict


@dataclass(frozen=True)
class Paper:
    """A paper in words: `did` is what it did and claims, `ran` what of that was run here."""

    title: str
    source: str
    did: str
    ran: str

    def opening(self, verdicts: Sequence[Verdict]) -> list[str]:
        """Two paragraphs."""
        return [f"{self.source}. {self.did}", f"{self.ran} {outcome(verdicts)}".strip()]


def outcome(verdicts: Sequence[Verdict]) -> str:
    """What came out, in a sentence or two.

    >>> a, b = Verdict("a is above b", "yes", "+1.0 ± 0.1", HOLDS), Verdict("c", "yes", "", UNDECIDED)
    >>> outcome([a, b])
    'Of 2 claims 1 holds, none does not hold, and 1 is undecided: what was measured cannot tell.'
    """
    if not verdicts:
        return ""
    counts = [sum(verdict.verdict == word for verdict in verdicts) for word in (HOLDS, DOES_NOT, UNDECIDED)]
    held, failed, left = counts
    total = f"Of {len(verdicts)} claims " if len(verdicts) > 1 else "The one claim: "
    return (
        f"{total}{_of(held, 'holds', 'hold')}, {_of(failed, 'does not hold', 'do not hold')}, and "
        f"{_of(left, 'is', 'are')} undecided: what was measured cannot tell."
    )


def _of(count: int, one: str, many: str) -> str:
    return f"{count or 'none'} {one if count < 2 else many}"
