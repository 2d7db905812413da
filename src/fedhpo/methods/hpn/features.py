"""What the server knows of clients: their numbers of rows and their losses, or encodings that were given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Floats, RoundReport

#: How much the latest report counts in what is known of a client.
_NEW = 0.5


class Features:
    """Numbers for each client, of mean 0 and deviation 1; all 0 for a client of whom nothing is known.

    Without encodings they are the logarithm of the number of training rows, and the loss before training less
    that of the client's cohort, both from reports.
    """

    def __init__(self, encodings: Mapping[int, Sequence[float]] | None = None) -> None:
        self._given = None if encodings is None else _standard(encodings)
        self._rows: dict[int, float] = {}
        self._losses: dict[int, float] = {}

    @property
    def count(self) -> int:
        """Numbers for each client."""
        return 2 if self._given is None else len(next(iter(self._given.values())))

    def of(self, clients: Sequence[int]) -> Floats:
        """One row for each client."""
        if self._given is not None:
            nothing = np.zeros(self.count)
            return np.stack([self._given.get(int(client), nothing) for client in clients])
        logs = {client: math.log(rows) for client, rows in self._rows.items()}
        columns = [_scaled(logs, clients), _scaled(self._losses, clients)]
        return np.stack(columns, axis=1)

    def see(self, report: RoundReport) -> None:
        """Take in what a round says of its members."""
        known = report.ok & (report.train_size > 0)
        losses = np.where(np.isfinite(report.loss_before), report.loss_before, math.nan)
        middle = np.nanmean(losses[known]) if np.isfinite(losses[known]).any() else math.nan
        for place in np.flatnonzero(known).tolist():
            client = int(report.cohort[place])
            self._rows[client] = float(report.train_size[place])
            if math.isfinite(gap := float(losses[place] - middle)):
                old = self._losses.get(client, gap)
                self._losses[client] = old + _NEW * (gap - old)


def _scaled(known: Mapping[int, float], clients: Sequence[int]) -> Floats:
    """These clients' values, standardised over all that are known; 0 where nothing is."""
    values = np.array(list(known.values()))
    if not len(values) or not values.std() > 0:
        return np.zeros(len(clients))
    middle, spread = values.mean(), values.std()
    return np.array([(known.get(int(client), middle) - middle) / spread for client in clients])


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
