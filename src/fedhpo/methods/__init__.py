"""Methods: the presets that users know by name."""

from fedhpo.methods.presets import METHODS, SHA, GridSearch, Method, RandomSearch, method_of
from fedhpo.methods.tuner import Tuner

__all__ = ["METHODS", "SHA", "GridSearch", "Method", "RandomSearch", "Tuner", "method_of"]
