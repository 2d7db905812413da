"""Schedules: which trials train for how long."""

from fedhpo.schedules.base import Schedule
from fedhpo.schedules.fixed import FixedLength
from fedhpo.schedules.halving import Halving, halving_rungs

__all__ = ["FixedLength", "Halving", "Schedule", "halving_rungs"]
