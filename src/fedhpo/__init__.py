"""Hyperparameter optimisation for federated learning.

>>> import fedhpo as fh
>>> space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True), "batch_size": 32})
>>> space.names
('client.lr',)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Names are imported when they are used, so that `import fedhpo` costs nothing heavy.
_HOME = {
    "Space": "fedhpo.space",
    "Float": "fedhpo.space",
    "Int": "fedhpo.space",
    "Choice": "fedhpo.space",
    "Ordinal": "fedhpo.space",
    "Config": "fedhpo.config",
    "FederatedData": "fedhpo.data",
    "from_clients": "fedhpo.data",
    "from_arrays": "fedhpo.data",
    "load": "fedhpo.data",
    "Work": "fedhpo.federation.protocol",
    "FineTune": "fedhpo.federation.fine_tune",
    "LocalSearch": "fedhpo.federation.local_search",
    "LocalPrivacy": "fedhpo.federation.local_privacy",
    "LearnerFederation": "fedhpo.federation.learners",
    "simulate": "fedhpo.federation.simulate",
    "Evaluator": "fedhpo.evaluation",
    "Objective": "fedhpo.evaluation",
    "Privacy": "fedhpo.evaluation",
    "Tuner": "fedhpo.methods",
    "RandomSearch": "fedhpo.methods",
    "GridSearch": "fedhpo.methods",
    "SHA": "fedhpo.methods",
    "TPE": "fedhpo.methods",
    "GP": "fedhpo.methods",
    "Hyperband": "fedhpo.methods",
    "BOHB": "fedhpo.methods",
    "ProxySearch": "fedhpo.methods",
    "FedEx": "fedhpo.methods",
    "FedPop": "fedhpo.methods",
    "FedTune": "fedhpo.methods",
    "FLoRA": "fedhpo.methods",
    "ReferenceTable": "fedhpo.fedtune",
    "StopTuning": "fedhpo.search",
    "tune": "fedhpo.tuning",
    "Study": "fedhpo.study",
    "TabularFederation": "fedhpo.federation.tabular",
    "load_table": "fedhpo.tables",
    "Result": "fedhpo.result",
    "FedhpoError": "fedhpo.errors",
    "InputError": "fedhpo.errors",
}

if TYPE_CHECKING:
    from fedhpo.config import Config
    from fedhpo.data import FederatedData, from_arrays, from_clients, load
    from fedhpo.errors import FedhpoError, InputError
    from fedhpo.evaluation import Evaluator, Objective, Privacy
    from fedhpo.federation.fine_tune import FineTune
    from fedhpo.federation.learners import LearnerFederation
    from fedhpo.federation.local_privacy import LocalPrivacy
    from fedhpo.federation.local_search import LocalSearch
    from fedhpo.federation.protocol import Work
    from fedhpo.federation.simulate import simulate
    from fedhpo.federation.tabular import TabularFederation
    from fedhpo.fedtune import ReferenceTable
    from fedhpo.methods import (
        BOHB,
        GP,
        SHA,
        TPE,
        FedEx,
        FedPop,
        FedTune,
        FLoRA,
        GridSearch,
        Hyperband,
        ProxySearch,
        RandomSearch,
        Tuner,
    )
    from fedhpo.result import Result
    from fedhpo.search import StopTuning
    from fedhpo.space import Choice, Float, Int, Ordinal, Space
    from fedhpo.study import Study
    from fedhpo.tables import load_table
    from fedhpo.tuning import tune

__all__ = [
    "BOHB",
    "GP",
    "SHA",
    "TPE",
    "Choice",
    "Config",
    "Evaluator",
    "FLoRA",
    "FedEx",
    "FedPop",
    "FedTune",
    "FederatedData",
    "FedhpoError",
    "FineTune",
    "Float",
    "GridSearch",
    "Hyperband",
    "InputError",
    "Int",
    "LearnerFederation",
    "LocalPrivacy",
    "LocalSearch",
    "Objective",
    "Ordinal",
    "Privacy",
    "ProxySearch",
    "RandomSearch",
    "ReferenceTable",
    "Result",
    "Space",
    "StopTuning",
    "Study",
    "TabularFederation",
    "Tuner",
    "Work",
    "from_arrays",
    "from_clients",
    "load",
    "load_table",
    "simulate",
    "tune",
]


#: Packages that are reached as attributes: `fh.data.Dirichlet`.
_PACKAGES = {
    "data",
    "evaluation",
    "federation",
    "fedtune",
    "flower",
    "learners",
    "methods",
    "models",
    "policies",
    "samplers",
    "schedules",
    "surfaces",
    "tables",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"fedhpo.{name}")
    raise AttributeError(f"module 'fedhpo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_PACKAGES})
