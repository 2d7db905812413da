"""Samplers: which configs to try next."""

from fedhpo.samplers.base import Observation, Sampler
from fedhpo.samplers.grid import Grid
from fedhpo.samplers.random import Random

__all__ = ["Grid", "Observation", "Random", "Sampler"]
