"""What every aggregation rule and server optimiser must do, as tests to inherit from.

class TestMine(AggregationSuite):
    def rule(self) -> Rule:
        return GeometricMedian()
"""

from __future__ import annotations

import numpy as np
import pytest

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.own_rule import Rule, rule_of
from fedhpo.aggregation.server import Lengths, Memory, ServerOptimiser
from fedhpo.core.vectors import Vector


def updates_of(clients: int, size: int = 40, seed: int = 0) -> Vector:
    """Updates that differ, one a row.

    >>> updates_of(3).shape
    (3, 40)
    """
    rng = np.random.default_rng(seed)
    drawn: Vector = rng.normal(1.0, 0.3, (clients, size)).astype(np.float32)
    return drawn


class AggregationSuite:
    """Tests of a rule."""

    def rule(self) -> Rule:
        """A rule to test."""
        raise NotImplementedError

    def joined(self, updates: Vector, sizes: list[int] | None = None) -> Vector:
        """What becomes of the updates as the server puts them together."""
        name, own = rule_of(self.rule(), Aggregation.RULES)
        gathered = Aggregation(rule=name, own=own).start()
        for member, update in enumerate(updates):
            gathered.add(update, 10 if sizes is None else sizes[member], member)
        return gathered.mean()

    @pytest.mark.parametrize("clients", [1, 2, 3, 40])
    def test_one_vector_for_any_number_of_clients(self, clients: int) -> None:
        found = self.joined(updates_of(clients))
        assert found.shape == (40,)
        assert found.dtype == np.float32
        assert np.isfinite(found).all()

    def test_equal_updates_stay_as_they_are(self) -> None:
        update = updates_of(1)
        assert self.joined(np.repeat(update, 5, axis=0)) == pytest.approx(update[0], abs=1e-5)

    def test_the_result_lies_among_the_updates(self) -> None:
        updates = updates_of(9)
        found = self.joined(updates)
        assert (found >= updates.min(axis=0) - 1e-5).all()
        assert (found <= updates.max(axis=0) + 1e-5).all()

    def test_the_same_updates_give_the_same_bits(self) -> None:
        assert self.joined(updates_of(7)).tobytes() == self.joined(updates_of(7)).tobytes()

    def test_the_updates_are_left_as_they_were(self) -> None:
        updates = updates_of(5)
        before = updates.copy()
        self.joined(updates)
        assert (updates == before).all()

    def test_weights_count_only_where_the_rule_says_so(self) -> None:
        updates, sizes = updates_of(4), [1, 1, 1, 200]
        changed = not np.array_equal(self.joined(updates), self.joined(updates, sizes))
        assert changed == bool(getattr(self.rule(), "by_size", False))


class OptimiserSuite:
    """Tests of a server optimiser, which inherits from `fedhpo.aggregation.server.FedAvg`."""

    def optimiser(self) -> ServerOptimiser:
        """An optimiser to test."""
        raise NotImplementedError

    def stepped(self, optimiser: ServerOptimiser, change: Vector, memory: Memory) -> tuple[Vector, Memory]:
        """Its step in the second round, of five updates that are twice as long as their mean."""
        lengths = Lengths(4 * float(change @ change), 5) if optimiser.needs_lengths else None
        return optimiser.step(change, memory, 1, *([] if lengths is None else [lengths]))

    def test_it_moves_by_finite_steps_for_many_rounds(self) -> None:
        memory: dict[str, Vector] = {}
        for number in range(20):
            step, left = self.stepped(self.optimiser(), updates_of(1, seed=number)[0], memory)
            memory = dict(left)
            assert step.shape == (40,)
            assert np.isfinite(step).all()
            assert all(value.dtype == np.float32 for value in memory.values())

    def test_it_keeps_no_state_of_its_own(self) -> None:
        optimiser, change = self.optimiser(), updates_of(1)[0]
        first, _ = self.stepped(optimiser, change.copy(), {})
        self.stepped(optimiser, -3 * change, {})
        again, _ = self.stepped(optimiser, change.copy(), {})
        assert first.tobytes() == again.tobytes()

    def test_the_change_is_left_as_it_was(self) -> None:
        change = updates_of(1)[0]
        before = change.copy()
        self.stepped(self.optimiser(), change, {})
        assert (change == before).all()
