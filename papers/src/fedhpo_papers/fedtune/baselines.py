"""What FedTune is compared with: a regression over the index, hand tuning, and what each costs.

Global tuning needs nothing of its own: it is `tune_cells` with one cell whose group are the clients of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.methods.fedtune.measures import profiled
from fedhpo.methods.fedtune.simulator import Simulator
from fedhpo.protocol.objective import Objective
from fedhpo.space.config import Config


@dataclass(frozen=True)
class Quadratic:
    """A learning rate that is a quadratic function of the client's index (the paper's Figure 2a).

    A `ClientSide` rule: `rest` holds the other hyperparameters, `low` and `high` bound the learning rate.

    >>> rule = Quadratic.through([(0.0, 0.01), (0.5, 0.02), (1.0, 0.05)], {"batch_size": 8}, 0.002, 0.8)
    >>> round(rule.lr(0.5), 6), round(rule.lr(0.75), 6)
    (0.02, 0.0325)
    """

    coefficients: tuple[float, ...]
    rest: Mapping[str, Any]
    low: float
    high: float
    measure: str = "heterogeneity_index"

    @classmethod
    def through(
        cls, points: Sequence[tuple[float, float]], rest: Mapping[str, Any], low: float, high: float
    ) -> Quadratic:
        """The least-squares fit to (index, learning rate) pairs of at least three indices."""
        if len({index for index, _ in points}) < 3:
            raise InputError(f"a quadratic needs at least 3 indices, found {sorted({i for i, _ in points})}")
        indices, rates = np.array(points, np.float64).T
        return cls(tuple(np.polyfit(indices, rates, 2).tolist()), dict(rest), low, high)

    def lr(self, index: float) -> float:
        """The learning rate at an index."""
        return min(self.high, max(self.low, float(np.polyval(self.coefficients, index))))

    def resolve(self, labels: NDArray[Any], classes: int | None) -> Mapping[str, Any]:
        """What a client does: measure its own index."""
        return {**self.rest, "lr": self.lr(profiled(self.measure, labels, classes)[0])}

    def to_dict(self) -> dict[str, Any]:
        """What is sent to the clients."""
        return {"kind": "quadratic", "coefficients": list(self.coefficients), "rest": dict(self.rest)}


def hand_tuned(
    simulator: Simulator, configs: Sequence[Config], objective: Objective | None = None
) -> list[Config]:
    """The best of some configs for each group of the simulator: each client alone, in hand tuning.

    It looks at every client's own data, so that no real server could do it.
    """
    objective = objective or Objective()
    sign = -1.0 if objective.maximise else 1.0
    groups = range(len(simulator.groups))
    found = simulator.simulate([(group, config) for group in groups for config in configs])
    ranks = [math.inf if math.isnan(one.held_out) else sign * one.held_out for one in found]
    return [configs[int(place)] for place in np.reshape(ranks, (len(groups), -1)).argmin(axis=1)]


def iterations_by_hand(clients: int, configs: int, rounds: int = 20) -> int:
    """Local trainings that hand tuning takes: each client trains each config alone (section 3.2.2).

    >>> iterations_by_hand(clients=100, configs=10)
    20000
    """
    return clients * configs * rounds


def iterations_globally(clients: int, configs: int, rounds: int = 100, share: float = 0.1) -> int:
    """Local trainings that global tuning in the real federation takes: a tenth of the clients, 100 rounds.

    >>> iterations_globally(clients=100, configs=10)
    10000
    """
    return round(share * clients) * configs * rounds
