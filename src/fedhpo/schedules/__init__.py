"""Schedules: which trials train for how long."""

from fedhpo.protocol.schedule import Schedule
from fedhpo.schedules.fixed import FixedLength
from fedhpo.schedules.halving import Halving, halving_rungs
from fedhpo.schedules.hyperband import Hyperband

__all__ = ["FixedLength", "Halving", "Hyperband", "Schedule", "halving_rungs"]
