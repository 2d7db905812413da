"""What a client has spent of its privacy, over all runs and restarts: a file of its own, one charge a line.

A charge is on disk before any noise is drawn. Whoever is killed in between has paid for nothing, and never
draws twice for one charge. What the file is safe against stands in `fedhpo.privacy.journal`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.run_errors import BudgetError, DamageError
from fedhpo.privacy.journal import IDENTITY, REMEDY, TORN, Journal

#: Sums of charges are floats: so little more than the total is not more.
_SLACK = 1e-9


class SpendingLedger:
    """A client's charges, and the total that they may add up to.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "privacy.jsonl"
    >>> SpendingLedger(path, total=2.0).charge(1.5, "a local search")
    >>> SpendingLedger(path, total=2.0).spent
    1.5
    >>> SpendingLedger(path, total=2.0).charge(1.0, "a local search")
    Traceback (most recent call last):
    ...
    fedhpo.errors.BudgetError: privacy: epsilon 1 for a local search is refused: 1.5 of 2 is spent
    """

    def __init__(self, path: str | Path, total: float) -> None:
        self._journal, self._total = Journal(path), total

    @property
    def spent(self) -> float:
        """The sum of all charges."""
        return self._sum(self._journal.read().entries)

    def charge(self, epsilon: float, what: str) -> None:
        """Write down a charge, or refuse it where it would exceed the total; on disk when this returns."""
        with self._journal.locked() as held:
            entries = held.content.entries
            spent = self._sum(entries)
            charge = {"epsilon": epsilon, "for": what}
            if self._sum([*entries, charge]) > self._total * (1 + _SLACK):
                raise BudgetError(
                    f"privacy: epsilon {epsilon:g} for {what} is refused: {spent:g} of {self._total:g} "
                    "is spent"
                )
            held.append(charge)

    def _sum(self, lines: Sequence[Any]) -> float:
        charges, torn = [], 0
        for number, line in enumerate(lines, start=1):
            if isinstance(line, dict) and IDENTITY in line:
                continue
            if isinstance(line, dict) and TORN in line:
                torn += 1
                continue
            try:
                epsilon = float(line["epsilon"])
            except (ValueError, TypeError, KeyError):
                epsilon = math.nan
            if not 0 < epsilon < math.inf:
                raise DamageError(self._journal.path, f"line {number} is not a charge", REMEDY)
            charges.append(epsilon)
        # What a line that was cut short came to is not known: as much as the largest of the others.
        return math.fsum([*charges, torn * max(charges, default=0.0)])
