"""The part of a table that a seed plays on, and the clients that it never sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedhpo.protocol.objective import Objective
from fedhpo.research.tables import CurveTable
from fedhpo_papers.jackknife import Jackknife

#: Searches on each part of a table: what differs between them is luck, not the part.
SEEDS = 2
#: Everybody counts as one, as private scores need it.
OBJECTIVE = Objective("error", weighting="uniform")


@dataclass(frozen=True, eq=False)
class Sample:
    """A part of a table, and the same configs at the clients that were left out."""

    table: CurveTable
    left_out: CurveTable

    def regret(self, config: int, round: int) -> float:
        """How much worse a config is than the best after full training, in points of error."""
        return _regret(self.table, config, round)

    def regret_elsewhere(self, config: int, round: int) -> float:
        """The same by the clients that were left out."""
        return _regret(self.left_out, config, round)


def knife_of(table: CurveTable, seeds: int) -> Jackknife:
    """The parts that so many seeds play on, every `SEEDS` of them on one."""
    return Jackknife.of(len(table.configs), len(table.validation_clients), max(2, -(-seeds // SEEDS)))


def sample_of(table: CurveTable, seed: int) -> Sample:
    """What a seed plays on."""
    part = knife_of(table, seed + 1).parts[seed // SEEDS]
    others = np.setdiff1d(np.arange(len(table.validation_clients)), part.clients)
    return Sample(part.of(table), table.kept(part.configs, others))


def _regret(table: CurveTable, config: int, round: int) -> float:
    means = table.errors().mean(axis=2)
    return 100 * float(means[config, table.place(round)] - np.nanmin(means[:, -1]))
