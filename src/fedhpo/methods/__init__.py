"""Methods: the presets that users know by name."""

from fedhpo.methods.auto import Auto
from fedhpo.methods.fedex.method import FedEx
from fedhpo.methods.fedhyper import FedHyper
from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.fedpop.method import FedPop
from fedhpo.methods.fedtune.method import FedTune
from fedhpo.methods.flora.method import FLoRA
from fedhpo.methods.fts import FTS
from fedhpo.methods.presets import BOHB, GP, SHA, TPE, GridSearch, Hyperband, NoTuning, RandomSearch
from fedhpo.methods.registry import METHODS, method_of
from fedhpo.methods.robust import Robust
from fedhpo.methods.tuner import Tuner
from fedhpo.protocol.method import Method

__all__ = [
    "BOHB",
    "FTS",
    "GP",
    "METHODS",
    "SHA",
    "TPE",
    "Auto",
    "Exchange",
    "FLoRA",
    "FedEx",
    "FedHyper",
    "FedPop",
    "FedTune",
    "GridSearch",
    "Hyperband",
    "Method",
    "NoTuning",
    "RandomSearch",
    "Robust",
    "Tuner",
    "method_of",
]
