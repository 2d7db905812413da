"""What a client has spent of its privacy, over all runs and restarts: a file of its own, one charge a line.

A charge is on disk before any noise is drawn. Whoever is killed in between has paid for nothing, and never
draws twice for one charge.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedhpo.core.run_errors import BudgetError, DamageError, trouble_at

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
    fedhpo.core.run_errors.BudgetError: privacy: epsilon 1 for a local search is refused: 1.5 of 2 is spent
    """

    def __init__(self, path: str | Path, total: float) -> None:
        self._path, self._total = Path(path).expanduser(), total

    @property
    def spent(self) -> float:
        """The sum of all charges."""
        if not self._path.exists():
            return 0.0
        with trouble_at(self._path, "cannot read"):
            return self._sum(self._path.read_bytes())

    def charge(self, epsilon: float, what: str) -> None:
        """Write down a charge, or refuse it where it would exceed the total; on disk when this returns."""
        with trouble_at(self._path, "cannot write"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked() as descriptor:
                size = os.fstat(descriptor).st_size
                held = os.pread(descriptor, size, 0)
                spent = self._sum(held)
                if spent + epsilon > self._total * (1 + _SLACK):
                    raise BudgetError(
                        f"privacy: epsilon {epsilon:g} for {what} is refused: {spent:g} of {self._total:g} "
                        "is spent"
                    )
                whole = held.rfind(b"\n") + 1  # a line that a crash cut short paid for nothing
                os.ftruncate(descriptor, whole)
                os.pwrite(descriptor, json.dumps({"epsilon": epsilon, "for": what}).encode() + b"\n", whole)
                os.fsync(descriptor)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _sum(self, held: bytes) -> float:
        *lines, _cut_short = held.split(b"\n")
        charges = []
        for number, line in enumerate(lines, start=1):
            try:
                epsilon = float(json.loads(line)["epsilon"])
            except (ValueError, TypeError, KeyError):
                epsilon = math.nan
            if not 0 < epsilon < math.inf:
                remedy = "restore it from a copy: without it nobody knows what is spent"
                raise DamageError(self._path, f"line {number} is no charge", remedy)
            charges.append(epsilon)
        return math.fsum(charges)
