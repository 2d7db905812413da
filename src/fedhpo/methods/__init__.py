"""Methods: the presets that users know by name."""

from fedhpo.methods.fedex.method import FedEx
from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.fedpop.method import FedPop
from fedhpo.methods.fedtune.method import FedTune
from fedhpo.methods.flora.method import FLoRA
from fedhpo.methods.method import Method
from fedhpo.methods.presets import BOHB, GP, METHODS, SHA, TPE, GridSearch, Hyperband, RandomSearch, method_of
from fedhpo.methods.robust import Robust
from fedhpo.methods.tuner import Tuner

__all__ = [
    "BOHB",
    "GP",
    "METHODS",
    "SHA",
    "TPE",
    "Exchange",
    "FLoRA",
    "FedEx",
    "FedPop",
    "FedTune",
    "GridSearch",
    "Hyperband",
    "Method",
    "RandomSearch",
    "Robust",
    "Tuner",
    "method_of",
]
