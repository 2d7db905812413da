"""The tabular federation with a surrogate: any config of the space is answered, not only the table's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedhpo.protocol.federation import Floats, Ints, Scores, TrialState
from fedhpo.protocol.objective import Objective
from fedhpo.research.tables.curve_table import CurveTable
from fedhpo.research.tables.federation import TabularFederation
from fedhpo.research.tables.surrogate import Answer, Surrogate
from fedhpo.space.config import Config


class SurrogateFederation(TabularFederation):
    """A table that answers any config of its space: samplers are not confined to a pool.

    >>> from fedhpo.testing.table import toy_table
    >>> import fedhpo as fh
    >>> table = toy_table(configs=32, rounds=9, clients=5)
    >>> result = fh.tune(SurrogateFederation(table), table.space, "random", rounds=9, total=27, cohort=5)
    >>> result.best_config in table.configs
    False
    """

    def __init__(
        self, table: CurveTable, heterogeneity: float = 0.0, surrogate: Surrogate | None = None
    ) -> None:
        super().__init__(table, heterogeneity)
        self.pool = None
        self.surrogate = surrogate or Surrogate(table)
        self._answers: dict[int, Answer] = {}

    def index(self, config: Config) -> int:
        found = self._places.get((config.model, config.client, config.server))
        return self._unknown(config) if found is None else found

    def truth(self, config: Config, round: int, objective: Objective) -> float:
        place = self.index(config)
        if place not in self._answers:
            return super().truth(config, round, objective)
        clients, answer = self.validation_clients, self._answers[place]
        loss, error = np.full((2, len(clients)), np.nan)
        recorded = self.table.place(round)
        if recorded >= 0:
            loss, error = answer.loss[0, recorded], answer.error[0, recorded]
        status, sizes = np.zeros(len(clients), np.int8), self.table.validation_sizes[clients]
        scores = Scores(0, "validation", clients, status, sizes, loss, 1 - error)
        return objective.observe(scores, round, len(clients)).value

    def _unknown(self, config: Config) -> int:
        """A place for a new config behind those that have one; outside the space it is refused."""
        place = len(self._configs)
        self._answers[place] = self.surrogate.answer(config)
        self._configs.append(config)
        self._places[(config.model, config.client, config.server)] = place
        return place

    def _able(self, place: int) -> int:
        return self._answers[place].trained if place in self._answers else super()._able(place)

    def _parameters(self, place: int) -> int:
        return self._answers[place].parameters if place in self._answers else super()._parameters(place)

    def _said(self, place: int, recorded: int, columns: Ints) -> tuple[Floats, Floats]:
        if place not in self._answers:
            return super()._said(place, recorded, columns)
        answer = self._answers[place]
        error = answer.error[self._level, recorded, columns]
        return answer.loss[self._level, recorded, columns], 1 - error

    # State: places behind the table's own belong to this object, so the config itself is kept

    def state(self, trial: int) -> TrialState:
        found, place = super().state(trial), self._trials[trial].config
        if place is None:
            return found
        return replace(found, facts={**found.facts, "config": self._configs[place].to_dict()})

    def restore(self, trial: int, state: TrialState) -> None:
        super().restore(trial, state)
        if "config" in state.facts:
            place = self.index(Config.from_dict(state.facts["config"]))
            self._trials[trial] = replace(self._trials[trial], config=place)

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        found = super().fingerprint(model)
        return {"table": {**found["table"], "surrogate": True}}

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "surrogate": True}


def tabular_federation(
    table: CurveTable, heterogeneity: float = 0.0, surrogate: bool | Surrogate = False
) -> TabularFederation:
    """The table's own configs, or with a surrogate (fitted already, or to be fitted) any of its space."""
    if surrogate is False:
        return TabularFederation(table, heterogeneity)
    fitted = surrogate if isinstance(surrogate, Surrogate) else None
    return SurrogateFederation(table, heterogeneity, fitted)
