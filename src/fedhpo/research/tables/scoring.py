"""Scores of every validation client at several heterogeneities, for the price of one.

The same rows are dealt to validation clients in several ways. Each row is scored once, as though it were a
client of its own, and what a client would have said follows from its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.data import FederatedData
from fedhpo.data.container import IGNORE, Split
from fedhpo.data.mixing import mix_validation
from fedhpo.protocol.federation import Federation, Floats, Ints


@dataclass(frozen=True, eq=False)
class RowScoring:
    """`data` is what the federation is to hold: its clients from number `first` on are single rows."""

    data: FederatedData
    first: int
    #: For each heterogeneity and validation client, by which rows it scores: numbers among the rows.
    dealt: tuple[Split, ...]
    #: Targets in each row: one label, or the tokens of a sequence that are not padding.
    targets: Ints

    @classmethod
    def of(cls, data: FederatedData, heterogeneity: Sequence[float], seed: int) -> RowScoring:
        """Deal the validation rows out, once for each heterogeneity."""
        if data.classes is None:
            raise InputError(f"data {data.name}: a table holds error rates, which a {data.task} has none of")
        if len(np.intersect1d(data.train_clients, data.validation_clients)):
            raise InputError(
                "data.split: a table needs clients that only validate: kind = 'pools', inside = 0"
            )
        rows = np.unique(data.validation.indices)
        dealt = []
        for p in heterogeneity:
            split = mix_validation(data, p, stream(seed, "redeal", round(1000 * p))).validation
            clients = np.flatnonzero(split.sizes)
            own = np.concatenate([split.rows(int(client)) for client in clients])
            dealt.append(Split.from_sizes(np.searchsorted(rows, own), split.sizes[clients]))
        nobody = np.zeros(len(rows), np.int64)
        alone = replace(
            data,
            train=Split.from_sizes(data.train.indices, np.concatenate([data.train.sizes, nobody])),
            validation=Split.from_sizes(rows, np.concatenate([0 * data.train.sizes, nobody + 1])),
            test=Split.from_sizes(np.empty(0, np.int64), np.concatenate([0 * data.train.sizes, nobody])),
            client_names=None,
        )
        y = data.y[rows]
        targets = (y.reshape(len(rows), -1) != IGNORE).sum(axis=1)
        return cls(alone, data.clients, tuple(dealt), targets)

    @property
    def counted(self) -> Ints:
        """Targets by heterogeneity and validation client."""
        return np.array([_sums(self.targets, split) for split in self.dealt]).astype(np.int64)

    def score(self, federation: Federation, trials: Sequence[int]) -> tuple[Ints, Floats]:
        """Wrong targets and mean loss, by trial, heterogeneity and validation client."""
        rows = self.first + np.arange(len(self.targets))
        wrong, loss = [], []
        for scores in federation.evaluate(trials, rows):
            if (scores.status != 0).any():
                raise RuntimeError(f"trial {scores.trial} could not be scored: {scores.reasons}")
            known = self.targets > 0
            right = np.where(known, np.rint(scores.accuracy * self.targets), 0)
            lost = np.where(known, scores.loss * self.targets, 0.0)
            wrong.append([_sums(self.targets - right, split) for split in self.dealt])
            loss.append([_sums(lost, split) for split in self.dealt])
        return np.array(wrong).astype(np.int64), np.array(loss) / self.counted


def _sums(values: Floats | Ints, split: Split) -> Floats:
    """The sum of each client's values."""
    own = values[split.indices].astype(np.float64)
    found: Floats = np.bincount(split.owners, weights=own, minlength=split.clients).astype(np.float64)
    return found
