"""A strategy of Flower's in the place of server optimiser and rule, for models that are flat vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.aggregation.aggregation import Aggregate, Aggregation
from fedhpo.core.errors import MissingExtraError
from fedhpo.core.streams import derive
from fedhpo.core.vectors import Vector, named_parts

try:
    from fedhpo.federations.strategies.named import NamedStrategy, named_strategy
    from fedhpo.federations.strategies.state import StrategyState
    from fedhpo.federations.strategies.step import EXAMPLES, Reply, aggregated
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "flwr":
        raise
    raise MissingExtraError("flwr", "flower") from error


__all__ = ["HeldUpdates", "StrategyServer", "named_strategy"]


class HeldUpdates(Aggregate):
    """All updates of a round, as they are: a strategy wants the clients' models one by one."""

    def __init__(self) -> None:
        super().__init__(Aggregation())
        self.held: list[tuple[Vector, int]] = []

    def add(self, update: Vector, size: int, member: int = 0) -> None:
        """Keep a client's update; the array is copied."""
        self.held.append((update.copy(), size))

    def mean(self) -> Vector:
        """There is none: what comes of the updates is the strategy's affair."""
        raise NotImplementedError


class StrategyServer:
    """Makes a trial's next model by a strategy; `repeatable` says whether its noise follows the seed."""

    def __init__(self, name: str, weighting: str, repeatable: bool) -> None:
        self.named: NamedStrategy = named_strategy(name)
        self._uniform, self._repeatable = weighting == "uniform", repeatable

    def check(self, values: Mapping[str, Any]) -> None:
        """Refuse hyperparameters that the strategy does not have."""
        for name in values:
            self.named.check(name)

    def step(
        self,
        weights: Vector,
        shapes: Mapping[str, tuple[int, ...]],
        updates: Sequence[tuple[Vector, int]],
        values: Mapping[str, Any],
        kept: tuple[Mapping[str, Any], Mapping[str, Vector]] | None,
        round: int,
        seeds: tuple[int, int],
    ) -> tuple[Vector, tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The weights after a round, and what the strategy remembers; `round` counts those already done."""
        replies = [
            Reply(place, named_parts(shapes, weights + update), {EXAMPLES: 1 if self._uniform else size})
            for place, (update, size) in enumerate(updates)
        ]
        made, state = aggregated(
            lambda: self.named.build(values, len(replies)),
            StrategyState(*kept) if kept is not None else StrategyState(),
            round + 1,
            named_parts(shapes, weights),
            replies,
            seed=derive(seeds[0], "strategy", seeds[1]) if self._repeatable else None,
        )
        vector = np.concatenate([np.empty(0, np.float32), *(made[name].reshape(-1) for name in shapes)])
        return vector.astype(np.float32), (state.attributes, state.arrays)
