"""What a strategy of Flower's must do to make the models of a trial: a suite that a test inherits.

```python
from fedhpo.testing.strategy import StrategySuite

class TestMine(StrategySuite):
    def make(self):
        return MyStrategy(momentum=0.9)
```

A run that was killed must go on as if nothing had happened, and copies of a trial are independent.
So what a strategy remembers must be its attributes: numbers, texts, bytes, arrays, records, lists and dicts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedhpo.core.streams import seeded
from fedhpo.federations.flower.identity import assume_identity
from fedhpo.federations.strategies.state import StrategyState
from fedhpo.federations.strategies.step import CohortGrid, Reply, aggregated, ask_everybody, record_of

NamedArrays = Mapping[str, NDArray[Any]]


class StrategySuite:
    """Facts about a strategy; see the module's docstring."""

    #: How many clients reply.
    clients = 6

    def make(self) -> Strategy:
        """A strategy that has done nothing yet; every call makes the same."""
        raise NotImplementedError

    def first(self) -> NamedArrays:
        """The model before the first round."""
        return {"w": np.zeros((3, 2), np.float32), "b": np.zeros(2)}

    def metrics(self, client: int) -> Mapping[str, Any]:
        """A client's reply to a training task."""
        return {"num-examples": 10 + client, "train_loss": 1.0 + client}

    # Helpers

    def replies(self, round: int) -> list[Reply]:
        """What came back in a round; the same each time."""
        rng = np.random.default_rng(round)

        def moved(array: NDArray[Any]) -> NDArray[Any]:
            return rng.normal(size=array.shape).astype(array.dtype)

        return [
            Reply(i, {name: moved(array) for name, array in self.first().items()}, self.metrics(i))
            for i in range(self.clients)
        ]

    def train(
        self, rounds: range, arrays: NamedArrays | None = None, state: StrategyState | None = None
    ) -> tuple[list[NamedArrays], StrategyState]:
        """The models after each of these rounds, and what the strategy then remembers."""
        arrays, state = arrays or self.first(), state or StrategyState()
        found: list[NamedArrays] = []
        for round in rounds:
            arrays, state = aggregated(self.make, state, round, arrays, self.replies(round), seed=round)
            found.append(arrays)
        return found, state

    # Facts

    def test_every_round_makes_another_model_of_the_same_types(self) -> None:
        models, _ = self.train(range(1, 4))
        for name, first in self.first().items():
            assert all(model[name].dtype == first.dtype for model in models)
            assert len({model[name].tobytes() for model in models}) == 3

    def test_what_it_remembers_can_be_written_down_and_goes_on_the_same(self) -> None:
        whole, _ = self.train(range(1, 5))
        models, state = self.train(range(1, 3))
        written = StrategyState(json.loads(json.dumps(state.attributes)), dict(state.arrays))
        rest, _ = self.train(range(3, 5), models[-1], written)
        assert [_bytes(model) for model in rest] == [_bytes(model) for model in whole[2:]]

    def test_a_copy_does_not_hang_on_the_original(self) -> None:
        models, state = self.train(range(1, 3))
        first, _ = self.train(range(3, 5), models[-1], state)
        second, _ = self.train(range(3, 5), models[-1], state)
        assert [_bytes(model) for model in first] == [_bytes(model) for model in second]

    def test_the_models_are_those_of_one_object_that_lives_through_all_rounds(self) -> None:
        assume_identity(1, 1)
        strategy, arrays = self.make(), self.first()
        ask_everybody(strategy)
        grid, by_hand = CohortGrid(range(1, self.clients + 1)), []
        for round in range(1, 4):
            with seeded(round):
                sent = {
                    message.metadata.dst_node_id - 1: message
                    for message in strategy.configure_train(round, record_of(arrays), ConfigRecord(), grid)
                }
                came = [
                    Message(
                        RecordDict({"a": record_of(one.arrays), "m": MetricRecord(dict(one.metrics))}),
                        reply_to=sent[one.client],
                    )
                    for one in self.replies(round)
                ]
                made, _ = strategy.aggregate_train(round, came)
            assert made is not None
            arrays = {name: made[name].numpy().astype(old.dtype) for name, old in self.first().items()}
            by_hand.append(arrays)
        ours, _ = self.train(range(1, 4))
        assert [_bytes(model) for model in ours] == [_bytes(model) for model in by_hand]


def _bytes(model: NamedArrays) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.items()}
