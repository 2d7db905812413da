"""Three quarters of a table: the sample that one replicate of the jackknife keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.protocol.federation import Ints
from fedhpo.protocol.objective import Objective
from fedhpo.research.tables import CurveTable

#: The share of configs, and of validation clients, that a replicate keeps.
KEPT = 0.75
#: Searches on each sample: what differs between them is luck, not the sample.
SEEDS_PER_SAMPLE = 2
#: Everybody counts as one, as private scores need it.
OBJECTIVE = Objective("error", weighting="uniform")


@dataclass(frozen=True, eq=False)
class Sample:
    """The part of a table that methods work on, and the clients that they never see."""

    table: CurveTable
    left_out: CurveTable

    def regret(self, config: int, round: int) -> float:
        """How much worse a config is than the best after full training, in points of error."""
        return _regret(self.table, config, round)

    def regret_elsewhere(self, config: int, round: int) -> float:
        """The same by the clients that were left out, where there are any."""
        return _regret(self.left_out, config, round)


def sample_of(table: CurveTable, seed: int, kept: float = KEPT) -> Sample:
    """The sample that a seed plays on: `SEEDS_PER_SAMPLE` consecutive seeds share one.

    Configs and clients are drawn without replacement, so that no config is twice in a pool.
    """
    rng = stream(seed // SEEDS_PER_SAMPLE, "bench", table.name)
    configs = _drawn(len(table.configs), kept, rng)
    clients = _drawn(len(table.validation_clients), kept, rng)
    others = np.setdiff1d(np.arange(len(table.validation_clients)), clients)
    return Sample(part_of(table, configs, clients), part_of(table, configs, others))


def _drawn(count: int, kept: float, rng: np.random.Generator) -> Ints:
    found: Ints = np.sort(rng.permutation(count)[: max(1, round(kept * count))])
    return found


def part_of(table: CurveTable, configs: Ints, clients: Ints) -> CurveTable:
    """The table with these configs and validation clients only, both by their places."""
    sizes = np.zeros_like(table.validation_sizes)
    asked = table.validation_clients[clients]
    sizes[asked] = table.validation_sizes[asked]
    return replace(
        table,
        configs=tuple(table.configs[place] for place in configs),
        trained=table.trained[configs],
        parameters=table.parameters[configs],
        validation_sizes=sizes,
        wrong=table.wrong[:, configs][..., clients],
        counted=table.counted[:, clients],
        loss=table.loss[:, configs][..., clients],
    )


def _regret(table: CurveTable, config: int, round: int) -> float:
    errors = table.errors()
    best = np.nanmin(errors[:, -1].mean(axis=1))
    return 100 * float(errors[config, table.place(round)].mean() - best)
