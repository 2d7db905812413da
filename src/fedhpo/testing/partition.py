"""What every partition must do, as tests to inherit from.

class TestMine(PartitionSuite):
    def partition(self, clients: int) -> Partitioner:
        return BySeason(clients)
"""

from __future__ import annotations

import numpy as np
import pytest

from fedhpo.data.container import Split
from fedhpo.data.own_partition import OwnPartition
from fedhpo.data.partition import Partitioner

LABELS = np.arange(600) % 5


class PartitionSuite:
    """Tests of a partition of 600 rows of 5 classes."""

    #: Whether every row goes to somebody.
    deals_all: bool = True

    def partition(self, clients: int) -> Partitioner:
        """A partition to test."""
        raise NotImplementedError

    def dealt(self, clients: int, seed: int = 0) -> Split:
        """Rows by client; a row that is dealt twice, or is not there, is refused."""
        own = OwnPartition("partition", self.partition(clients), clients)
        return own(LABELS, np.random.default_rng(seed))

    @pytest.mark.parametrize("clients", [2, 5, 20])
    def test_rows_go_to_as_many_clients_as_asked(self, clients: int) -> None:
        split = self.dealt(clients)
        assert split.clients == clients
        assert (split.sizes > 0).all(), "a client without rows"
        if self.deals_all:
            assert int(split.sizes.sum()) == len(LABELS)

    def test_the_same_generator_gives_the_same_partition(self) -> None:
        first, again = self.dealt(5, seed=3), self.dealt(5, seed=3)
        assert (first.indices == again.indices).all()
        assert (first.sizes == again.sizes).all()

    def test_the_labels_are_left_as_they_were(self) -> None:
        before = LABELS.copy()
        self.dealt(5)
        assert (before == LABELS).all()
