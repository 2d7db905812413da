"""FedEx with a distribution for each hyperparameter over a few values of it, in place of one over arms.

So does the code of Khodak et al. (2021) where it is given a grid: k values of each of d hyperparameters are
k^d combinations, of which a distribution over arms sees k only. It cannot learn how values go together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods.fedex.arms import draw_arms
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.settings import FedExSettings
from fedhpo.methods.fedex.state import FedExState
from fedhpo.protocol.federation import RoundReport
from fedhpo.space import Space
from fedhpo.space.config import Config


def grid_of(
    config: Config,
    space: Space,
    grid: int | Mapping[str, Sequence[Any]],
    eps: float,
    rng: np.random.Generator,
) -> dict[str, list[Any]]:
    """The values of each client hyperparameter: the config's own first, then those given, or near ones.

    A number draws that many arms near the config and takes their coordinates; what comes twice counts once.

    >>> from fedhpo.space import Float, Int
    >>> space = Space(client={"lr": Float(0.01, 1.0, log=True), "epochs": Int(1, 5)})
    >>> grid_of(space.default(), space, {"lr": [0.1, 0.3]}, 0.1, np.random.default_rng(0))
    {'lr': [0.1, 0.3]}
    >>> found = grid_of(space.default(), space, 4, 0.1, np.random.default_rng(0))
    >>> len(found["lr"]), sorted(found["epochs"])
    (4, [3, 4])
    """
    known = {d.name.partition(".")[2]: d for d in space.plan if d.scope == "client"}
    for name, dimension in known.items():
        if dimension.condition or any(dimension.name == p for d in space.plan for p, _ in d.condition):
            raise InputError(f"grid: {name} goes with another hyperparameter (`when`); use arms instead")
    if isinstance(grid, Mapping):
        for name in grid:
            if name not in known:
                raise unknown_name("client hyperparameter in grid", name, known)
        return {
            name: list(dict.fromkeys([config.client[name], *map(known[name].hyperparameter.check, values)]))
            for name, values in grid.items()
        }
    arms = draw_arms(config, space, grid, eps, rng)
    values = {name: list(dict.fromkeys(arm[name] for arm in arms)) for name in known}
    return {name: some for name, some in values.items() if len(some) > 1}


class GridState:
    """One trial's distributions, one for each hyperparameter; each learns from the same scores."""

    def __init__(
        self, settings: FedExSettings, config: Config, grid: Mapping[str, Sequence[Any]], learns: int | None
    ) -> None:
        self._config = config
        self.parts = {
            name: FedExState(settings, LearnedPolicy.uniform([{name: value} for value in values]), (), learns)
            for name, values in grid.items()
        }

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> list[Mapping[str, Any]]:
        """A value of each hyperparameter for each member, drawn independently."""
        drawn = [part.assign(cohort, rng) for part in self.parts.values()]
        return [self._merged([values[place] for values in drawn]) for place in range(len(cohort))]

    def learn(self, report: RoundReport) -> None:
        """Move the weights of each hyperparameter's values."""
        for part in self.parts.values():
            part.learn(report)

    def _merged(self, values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {**self._config.client, **{name: value for one in values for name, value in one.items()}}

    @property
    def learned(self) -> dict[str, Any]:
        """For each hyperparameter its values and their weights."""
        return {name: part.learned.to_dict() for name, part in self.parts.items()}

    def deployed(self, config: Config) -> Config:
        """The config with the value of most weight of each hyperparameter."""
        return config.replace(client=self._merged([part.arms[part.best] for part in self.parts.values()]))

    def history(self) -> dict[str, Any]:
        """Each hyperparameter's policy over time, JSON-able."""
        return {"grid": {name: part.history() for name, part in self.parts.items()}}
