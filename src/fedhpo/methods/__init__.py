"""Methods: the presets that users know by name."""

from fedhpo.methods.presets import (
    BOHB,
    GP,
    METHODS,
    SHA,
    TPE,
    GridSearch,
    Hyperband,
    Method,
    RandomSearch,
    method_of,
)
from fedhpo.methods.tuner import Tuner

__all__ = [
    "BOHB",
    "GP",
    "METHODS",
    "SHA",
    "TPE",
    "GridSearch",
    "Hyperband",
    "Method",
    "RandomSearch",
    "Tuner",
    "method_of",
]
