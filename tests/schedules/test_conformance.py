"""Every schedule does what a schedule must do."""

from fedhpo.protocol.schedule import Schedule
from fedhpo.schedules import FixedLength, Halving, Hyperband
from fedhpo.testing.schedule import ScheduleSuite


class TestFixedLength(ScheduleSuite):
    def schedule(self) -> Schedule:
        return FixedLength(side_by_side=2)


class TestHalving(ScheduleSuite):
    def schedule(self) -> Schedule:
        return Halving(trials=6, rate=2)


class TestHalvingWithSeveralAtTheEnd(ScheduleSuite):
    def schedule(self) -> Schedule:
        return Halving(trials=5, rate=2, eliminations=1)


class TestHyperband(ScheduleSuite):
    def schedule(self) -> Schedule:
        return Hyperband(rate=2)
