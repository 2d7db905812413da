"""`CurveTable`: what every validation client said of every config as it trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Floats, Ints, Scores
from fedhpo.protocol.objective import Objective
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.study import Study
from fedhpo.study.methods import brought


@dataclass(frozen=True, eq=False)
class Again:
    """Some configs trained a second time: arrays as those of the table, of the configs at these places.

    Only heterogeneity 0 is kept: the first axis of `wrong` and `loss` has length 1.
    """

    configs: Ints
    trained: Ints
    wrong: NDArray[Any] = field(repr=False)
    loss: NDArray[np.float16] = field(repr=False)

    def kept(self, configs: Ints, clients: Ints) -> Again:
        """The same of a part of the table: places of configs are those in the part."""
        held = np.isin(self.configs, configs)
        return Again(
            np.searchsorted(configs, self.configs[held]),
            self.trained[held],
            self.wrong[:, held][..., clients],
            self.loss[:, held][..., clients],
        )


@dataclass(frozen=True, eq=False)
class CurveTable:
    """Learning curves of `configs`, scored at `rounds` by every validation client.

    Arrays are indexed by heterogeneity, config, round and validation client, in this order. An error rate
    is exact: `wrong` targets out of `counted`. A loss is a float16, of which `recipe["loss_bits"]` bits
    of the mantissa are kept; above 65,504, or not a number, it is 65,504. Sizes are those of all clients of
    the federation, 0 where a client has no such rows.
    """

    name: str
    study_tables: Mapping[str, Any]
    configs: tuple[Config, ...]
    rounds: Ints
    heterogeneity: tuple[float, ...]
    train_sizes: Ints
    validation_sizes: Ints
    #: How many rounds each config could be trained for before its updates stopped being finite.
    trained: Ints
    #: Numbers in each config's model.
    parameters: Ints
    wrong: NDArray[Any] = field(repr=False)
    counted: Ints = field(repr=False)
    loss: NDArray[np.float16] = field(repr=False)
    recipe: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: A second training of the best configs, if there was one. Replays go by the first.
    again: Again | None = field(default=None, repr=False)

    @classmethod
    def load(cls, path: str | Path) -> CurveTable:
        """Read and check a table's file."""
        from fedhpo.research.tables.file import read_table

        return read_table(Path(path))

    def save(self, path: str | Path) -> CurveTable:
        """Write the table, as precisely as fits into 4 MB, and return it as it was written."""
        from fedhpo.research.tables.file import write_table

        return write_table(Path(path), self)

    @cached_property
    def study(self) -> Study:
        """The study that it was built from: space, budget, objective.

        A method that must be imported is left out: reading a table imports nothing that it names.
        """
        given = dict(self.study_tables)
        if any(key.startswith("method") for key, _ in brought(given)):
            del given["method"]
        return Study.from_dict(given, path=f"table {self.name}")

    @property
    def space(self) -> Space:
        """The space that its configs were drawn from."""
        return self.study.space

    @property
    def train_clients(self) -> Ints:
        """The clients that trained."""
        return np.flatnonzero(self.train_sizes)

    @property
    def validation_clients(self) -> Ints:
        """The clients that scored."""
        return np.flatnonzero(self.validation_sizes)

    def kept(self, configs: Ints, clients: Ints) -> CurveTable:
        """The table with these configs and validation clients only, by their places in ascending order."""
        sizes = np.zeros_like(self.validation_sizes)
        held = self.validation_clients[clients]
        sizes[held] = self.validation_sizes[held]
        return replace(
            self,
            configs=tuple(self.configs[place] for place in configs),
            trained=self.trained[configs],
            parameters=self.parameters[configs],
            validation_sizes=sizes,
            wrong=self.wrong[:, configs][..., clients],
            loss=self.loss[:, configs][..., clients],
            counted=self.counted[:, clients],
            again=None if self.again is None else self.again.kept(configs, clients),
        )

    def level(self, heterogeneity: float) -> int:
        """The place of one of the recorded heterogeneities."""
        if heterogeneity not in self.heterogeneity:
            known = ", ".join(f"{p:g}" for p in self.heterogeneity)
            raise InputError(f"heterogeneity = {heterogeneity!r}: table {self.name} holds {known}")
        return self.heterogeneity.index(heterogeneity)

    def errors(self, heterogeneity: float = 0.0) -> Floats:
        """Error rate by config, round and validation client."""
        level = self.level(heterogeneity)
        found: Floats = np.asarray(self.wrong[level] / self.counted[level], np.float64)
        return found

    def losses(self, heterogeneity: float = 0.0) -> Floats:
        """Loss by config, round and validation client."""
        found: Floats = self.loss[self.level(heterogeneity)].astype(np.float64)
        return found

    def place(self, round: int) -> int:
        """The place of the last recorded round that is not later than `round`; -1 before the first."""
        return int(np.searchsorted(self.rounds, round, side="right")) - 1

    def scores(self, config: int, round: int, heterogeneity: float = 0.0) -> Scores:
        """All validation clients' scores of a config after `rounds` rounds; NaN before the first score."""
        place, clients = self.place(round), self.validation_clients
        loss, error = np.full((2, len(clients)), np.nan)
        if place >= 0:
            level = self.level(heterogeneity)
            loss = self.loss[level, config, place].astype(np.float64)
            error = self.wrong[level, config, place] / self.counted[level]
        sizes = self.validation_sizes[clients]
        return Scores(0, "validation", clients, np.zeros(len(clients), np.int8), sizes, loss, 1 - error)

    def truth(
        self, config: int, round: int, objective: Objective | None = None, heterogeneity: float = 0.0
    ) -> float:
        """The objective over all validation clients: what a noisy score is an estimate of."""
        scores = self.scores(config, round, heterogeneity)
        return (objective or self.study.objective).observe(scores, round, len(scores.clients)).value

    def training_deviation(self) -> float | None:
        """Standard deviation of a final error rate between trainings of one config; None if unknown."""
        if self.again is None:
            return None
        shares = self.counted[0] / self.counted[0].sum()
        final = [wrong[0, :, -1] / self.counted[0] @ shares for wrong in (self.wrong, self.again.wrong)]
        return float(np.sqrt(((final[0][self.again.configs] - final[1]) ** 2).mean() / 2))

    def spread(self) -> dict[str, float]:
        """How far apart final errors are, between configs and between clients.

        `configs` and `clients` are standard deviations, over the better half of the configs; `near_best`
        counts configs within a point of the best one.
        """
        final = self.errors()[:, -1]
        levels = final @ (self.counted[0] / self.counted[0].sum())
        better = levels <= np.median(levels)
        return {
            "configs": float(levels[better].std()),
            "clients": float(final[better].std(axis=1).mean()),
            "near_best": int((levels <= levels.min() + 0.01).sum()),
        }

    def facts(self) -> dict[str, Any]:
        """What the table is, JSON-able."""
        final = np.sort(
            [self.truth(c, int(self.rounds[-1]), Objective("error")) for c in range(len(self.configs))]
        )
        return {
            "name": self.name,
            "data": self.study_tables["data"].get("name"),
            "model": self.study_tables["model"].get("name"),
            "configs": len(self.configs),
            "rounds": int(self.rounds[-1]),
            "scored_rounds": [int(r) for r in self.rounds],
            "train_clients": len(self.train_clients),
            "validation_clients": len(self.validation_clients),
            "heterogeneity": list(self.heterogeneity),
            "failed_configs": int((self.trained < self.rounds[-1]).sum()),
            "error": {"best": float(final[0]), "median": float(np.median(final)), "worst": float(final[-1])},
            "spread": self.spread(),
            "trained_again": 0 if self.again is None else len(self.again.configs),
            "training_deviation": self.training_deviation(),
            "recipe": dict(self.recipe),
        }
