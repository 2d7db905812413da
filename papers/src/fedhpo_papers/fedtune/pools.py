"""Pools: some hundred configs of each set, simulated once in every cell; tuners then replay them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedhpo.core.journal import Journal
from fedhpo.core.streams import stream
from fedhpo.data import FederatedData
from fedhpo.methods.fedtune import Cells, CellSearch, CellTuner, ReferenceTable, Simulator, tune_cells
from fedhpo.methods.fedtune.fill import table_of
from fedhpo.methods.fedtune.simulator import binomial_error
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.objective import Objective
from fedhpo.space.config import Config
from fedhpo_papers.fedtune.sets import Scale, Setting, World

_AT_ONCE = 8


@dataclass(frozen=True, eq=False)
class Pool:
    """Scores of all configs in each cell; the last row is the mixture, the clients of all cells together."""

    setting: Setting
    configs: list[Config]
    held_out: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    own: np.ndarray[tuple[int, ...], np.dtype[np.float64]]

    def replay(
        self, tuner: CellTuner, seed: int, scored_on: str = "held-out", cells: Sequence[int] | None = None
    ) -> list[CellSearch]:
        """What a tuner finds in each cell, or in some rows, where only the pool may be tried."""
        rows = list(range(len(self.setting.cells))) if cells is None else list(cells)
        grid = self.setting.cells if cells is None else Cells((0.5,), tuple(range(1, len(rows) + 1)))
        scores = self.own if scored_on == "own" else self.held_out
        place = {config: i for i, config in enumerate(self.configs)}
        # In order, for a grid: pools are drawn at random.
        ordered = sorted(self.configs, key=lambda c: tuple(c.client.values()))
        pool = ordered if tuner.sampler == "grid" else self.configs

        def scored(cell: int, config: Config) -> tuple[float, float]:
            score = float(scores[rows[cell], place[config]])
            return score, binomial_error(score, self.setting.held_out)

        return tune_cells(
            lambda asked: [scored(cell, config) for cell, config in asked],
            grid,
            self.setting.space,
            tuner,
            seed=seed,
            pools=[pool] * len(rows),
        )

    def table(self, searches: list[CellSearch], look_up: str = "nearest") -> ReferenceTable:
        """The table of the best configs."""
        return table_of(searches, self.setting.cells, self.setting.space, Objective(), look_up=look_up)

    def sub_table(self, table: ReferenceTable, cells: Cells) -> ReferenceTable:
        """A table with fewer of its cells."""
        profiles = self.setting.cells.profiles
        chosen = [profiles.index(profile) for profile in cells.profiles]
        return replace(table, cells=cells, configs=[table.configs[c] for c in chosen], scores=())


def steps_until(search: CellSearch, target: float) -> int:
    """Steps until a score of at least `target`; one more than there were if it was not reached.

    >>> steps_until(CellSearch(0, [], [0.1, math.nan, 0.5]), 0.4), steps_until(CellSearch(0, [], [0.1]), 0.4)
    (3, 2)
    """
    reached = (i + 1 for i, score in enumerate(search.scores) if score >= target)
    return next(reached, len(search.scores) + 1)


def simulated_pool(
    world: World, scale: Scale, federation: Callable[[FederatedData], Federation], path: Path
) -> Pool:
    """Simulate what has not been; the journal at `path` keeps every few configs."""
    setting = world.setting
    rng = stream(0, "pool")
    configs = [setting.space.default()]
    while len(configs) < scale.pool:
        drawn = setting.space.sample(rng)
        configs += [] if drawn in configs else [drawn]
    proxies = world.proxy.federation(setting.cells, scale.simulated_clients)
    groups = [*proxies.groups, [client for group in proxies.groups for client in group]]
    about = {
        "set": setting.words,
        "pool": scale.pool,
        "rounds": scale.simulated_rounds,
        # Lines name configs by their place: a journal of other configs must not be read as one of these.
        "configs": [config.to_dict() for config in configs],
    }
    journal = Journal(path, about)
    found = {line["config"]: line["scores"] for line in journal}
    if len(found) < len(configs):
        with federation(proxies.data) as opened:
            simulator = Simulator(
                opened,
                groups,
                proxies.scorer,
                scale.simulated_rounds,
                scale.simulated_clients,
                model=setting.shape,
                own_scores=True,
            )
            for begin in range(0, len(configs), _AT_ONCE):
                todo = [i for i in range(begin, min(begin + _AT_ONCE, len(configs))) if i not in found]
                asked = [(group, configs[i]) for i in todo for group in range(len(groups))]
                scores = simulator.simulate(asked)
                lines = []
                for nth, i in enumerate(todo):
                    ours = scores[nth * len(groups) : (nth + 1) * len(groups)]
                    found[i] = [[_known(one.held_out), _known(one.own)] for one in ours]
                    lines.append({"config": i, "scores": found[i]})
                journal.add(lines)
    values = np.array(
        [[[math.nan if v is None else v for v in pair] for pair in found[i]] for i in range(len(configs))]
    )
    return Pool(setting, configs, values[:, :, 0].T, values[:, :, 1].T)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
