"""What the server knows of clients: their numbers of rows, or encodings that were given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Floats, RoundReport


class Features:
    """Numbers for each client, of mean 0 and deviation 1; all 0 for a client of whom nothing is known.

    Without encodings there is one, the logarithm of the number of training rows, from reports. (The loss
    before training was tried besides. Where clients are alike it is mere noise, and the network follows it.)
    """

    def __init__(self, encodings: Mapping[int, Sequence[float]] | None = None) -> None:
        self._given = None if encodings is None else _standard(encodings)
        self._rows: dict[int, float] = {}

    @property
    def count(self) -> int:
        """Numbers for each client."""
        return 1 if self._given is None else len(next(iter(self._given.values())))

    def of(self, clients: Sequence[int]) -> Floats:
        """One row for each client."""
        nothing = np.zeros(self.count)
        known = self._given if self._given is not None else self._scaled()
        return np.stack([known.get(int(client), nothing) for client in clients])

    def _scaled(self) -> dict[int, Floats]:
        """The logarithms, standardised over all clients that are known."""
        logs = {client: math.log(rows) for client, rows in self._rows.items()}
        spread = float(np.std(list(logs.values()))) if logs else 0.0
        if not spread > 0:
            return {}
        middle = float(np.mean(list(logs.values())))
        return {client: np.array([(value - middle) / spread]) for client, value in logs.items()}

    def see(self, report: RoundReport) -> None:
        """Take in what a round says of its members."""
        for place in np.flatnonzero(report.ok & (report.train_size > 0)).tolist():
            self._rows[int(report.cohort[place])] = float(report.train_size[place])


def _standard(encodings: Mapping[int, Sequence[float]]) -> dict[int, Floats]:
    lengths = {len(row) for row in encodings.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InputError(
            f"encodings must all have the same number of values, at least 1, not {sorted(lengths)}"
        )
    table = np.array(list(encodings.values()), dtype=np.float64)
    if not np.isfinite(table).all():
        raise InputError("encodings must be finite numbers")
    spread = table.std(axis=0)
    table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return {int(client): row for client, row in zip(encodings, table, strict=True)}
