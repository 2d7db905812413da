"""Samplers: which configs to try next."""

from fedhpo.protocol.sampler import Observation, Sampler
from fedhpo.samplers.asker import Asker
from fedhpo.samplers.bohb import BOHB
from fedhpo.samplers.gp import GP
from fedhpo.samplers.grid import Grid
from fedhpo.samplers.optuna import OptunaSampler
from fedhpo.samplers.proposals import Proposals
from fedhpo.samplers.random import Random
from fedhpo.samplers.tpe import TPE

__all__ = [
    "BOHB",
    "GP",
    "TPE",
    "Asker",
    "Grid",
    "Observation",
    "OptunaSampler",
    "Proposals",
    "Random",
    "Sampler",
]
