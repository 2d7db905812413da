"""Methods: the presets that users know by name."""

from fedhpo.methods.exchange import Exchange
from fedhpo.methods.fedex import FedEx
from fedhpo.methods.fedpop import FedPop
from fedhpo.methods.fedtune import FedTune
from fedhpo.methods.flora import FLoRA
from fedhpo.methods.method import Method
from fedhpo.methods.presets import (
    BOHB,
    GP,
    METHODS,
    SHA,
    TPE,
    GridSearch,
    Hyperband,
    RandomSearch,
    method_of,
)
from fedhpo.methods.proxy import ProxySearch
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
    "ProxySearch",
    "RandomSearch",
    "Tuner",
    "method_of",
]
