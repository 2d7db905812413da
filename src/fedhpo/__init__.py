"""Hyperparameter optimisation for federated learning.

>>> import fedhpo as fh
>>> space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True), "batch_size": 32})
>>> space.names
('client.lr',)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedhpo.core.version import VERSION as __version__  # noqa: F401

# Names are imported when they are used, so that `import fedhpo` costs nothing heavy.
_HOME = {
    "Space": "fedhpo.space",
    "Float": "fedhpo.space",
    "Int": "fedhpo.space",
    "Choice": "fedhpo.space",
    "Ordinal": "fedhpo.space",
    "Config": "fedhpo.space.config",
    "Asker": "fedhpo.samplers",
    "FederatedData": "fedhpo.data",
    "from_clients": "fedhpo.data",
    "from_arrays": "fedhpo.data",
    "from_csv": "fedhpo.data",
    "from_dataset": "fedhpo.data",
    "from_frames": "fedhpo.data",
    "from_loader": "fedhpo.data",
    "from_text": "fedhpo.data",
    "Characters": "fedhpo.data",
    "LoRA": "fedhpo.models.lora",
    "load": "fedhpo.data",
    "Work": "fedhpo.protocol.federation",
    "FineTune": "fedhpo.protocol.fine_tune",
    "LocalSearch": "fedhpo.queries.local_search",
    "LocalPrivacy": "fedhpo.privacy.local",
    "LearnerFederation": "fedhpo.parties.learners",
    "simulate": "fedhpo.federations.simulate",
    "TrainContext": "fedhpo.engine.context",
    "Fleet": "fedhpo.federations.fleet",
    "Evaluator": "fedhpo.search.evaluator",
    "Objective": "fedhpo.protocol.objective",
    "Metric": "fedhpo.protocol.metrics",
    "Privacy": "fedhpo.privacy.privacy",
    "PrivacyLedger": "fedhpo.privacy.budget",
    "Method": "fedhpo.methods",
    "Tuner": "fedhpo.methods",
    "Auto": "fedhpo.methods",
    "RandomSearch": "fedhpo.methods",
    "GridSearch": "fedhpo.methods",
    "SHA": "fedhpo.methods",
    "TPE": "fedhpo.methods",
    "GP": "fedhpo.methods",
    "Robust": "fedhpo.methods",
    "Hyperband": "fedhpo.methods",
    "NoTuning": "fedhpo.methods",
    "BOHB": "fedhpo.methods",
    "ProxySearch": "fedhpo.tuning.proxy",
    "Preset": "fedhpo.methods.preset",
    "FedEx": "fedhpo.methods",
    "FedPop": "fedhpo.methods",
    "FedTune": "fedhpo.methods",
    "FLoRA": "fedhpo.methods",
    "FTS": "fedhpo.methods",
    "FedHyper": "fedhpo.methods",
    "ReferenceTable": "fedhpo.methods.fedtune",
    "fill_table": "fedhpo.methods.fedtune",
    "StopTuning": "fedhpo.search.events",
    "Event": "fedhpo.search.events",
    "Trial": "fedhpo.protocol.trial",
    "Gain": "fedhpo.protocol.outcome",
    "TestScores": "fedhpo.protocol.outcome",
    "tune": "fedhpo.report.tuned",
    "Study": "fedhpo.study",
    "TabularFederation": "fedhpo.research.tables.federation",
    "load_run": "fedhpo.tuning.load",
    "load_table": "fedhpo.research.tables",
    "verify": "fedhpo.referee.verify",
    "write_report": "fedhpo.report",
    "Result": "fedhpo.tuning.result",
    "FedhpoError": "fedhpo.core.errors",
    "InputError": "fedhpo.core.errors",
}

if TYPE_CHECKING:
    from fedhpo import data as data
    from fedhpo import errors as errors
    from fedhpo import federations as federations
    from fedhpo import flower as flower
    from fedhpo import learners as learners
    from fedhpo import methods as methods
    from fedhpo import models as models
    from fedhpo import policies as policies
    from fedhpo import privacy as privacy
    from fedhpo import protocol as protocol
    from fedhpo import research as research
    from fedhpo import samplers as samplers
    from fedhpo import schedules as schedules
    from fedhpo import search as search
    from fedhpo import testing as testing
    from fedhpo import trackers as trackers
    from fedhpo.core.errors import FedhpoError, InputError
    from fedhpo.data import (
        Characters,
        FederatedData,
        from_arrays,
        from_clients,
        from_csv,
        from_dataset,
        from_frames,
        from_loader,
        from_text,
        load,
    )
    from fedhpo.engine.context import TrainContext
    from fedhpo.federations.fleet import Fleet
    from fedhpo.federations.simulate import simulate
    from fedhpo.methods import (
        BOHB,
        FTS,
        GP,
        SHA,
        TPE,
        Auto,
        FedEx,
        FedHyper,
        FedPop,
        FedTune,
        FLoRA,
        GridSearch,
        Hyperband,
        Method,
        NoTuning,
        RandomSearch,
        Robust,
        Tuner,
    )
    from fedhpo.methods.fedtune import ReferenceTable, fill_table
    from fedhpo.methods.preset import Preset
    from fedhpo.models.lora import LoRA
    from fedhpo.parties.learners import LearnerFederation
    from fedhpo.privacy.budget import PrivacyLedger
    from fedhpo.privacy.local import LocalPrivacy
    from fedhpo.privacy.privacy import Privacy
    from fedhpo.protocol.federation import Work
    from fedhpo.protocol.fine_tune import FineTune
    from fedhpo.protocol.metrics import Metric
    from fedhpo.protocol.objective import Objective
    from fedhpo.protocol.outcome import Gain, TestScores
    from fedhpo.protocol.trial import Trial
    from fedhpo.queries.local_search import LocalSearch
    from fedhpo.referee.verify import verify
    from fedhpo.report import write_report
    from fedhpo.report.tuned import tune
    from fedhpo.research.tables import load_table
    from fedhpo.research.tables.federation import TabularFederation
    from fedhpo.samplers import Asker
    from fedhpo.search.evaluator import Evaluator
    from fedhpo.search.events import Event, StopTuning
    from fedhpo.space import Choice, Float, Int, Ordinal, Space
    from fedhpo.space.config import Config
    from fedhpo.study import Study
    from fedhpo.tuning.load import load_run
    from fedhpo.tuning.proxy import ProxySearch
    from fedhpo.tuning.result import Result

__all__ = [
    "BOHB",
    "FTS",
    "GP",
    "SHA",
    "TPE",
    "Asker",
    "Auto",
    "Characters",
    "Choice",
    "Config",
    "Evaluator",
    "Event",
    "FLoRA",
    "FedEx",
    "FedHyper",
    "FedPop",
    "FedTune",
    "FederatedData",
    "FedhpoError",
    "FineTune",
    "Fleet",
    "Float",
    "Gain",
    "GridSearch",
    "Hyperband",
    "InputError",
    "Int",
    "LearnerFederation",
    "LoRA",
    "LocalPrivacy",
    "LocalSearch",
    "Method",
    "Metric",
    "NoTuning",
    "Objective",
    "Ordinal",
    "Preset",
    "Privacy",
    "PrivacyLedger",
    "ProxySearch",
    "RandomSearch",
    "ReferenceTable",
    "Result",
    "Robust",
    "Space",
    "StopTuning",
    "Study",
    "TabularFederation",
    "TestScores",
    "TrainContext",
    "Trial",
    "Tuner",
    "Work",
    "fill_table",
    "from_arrays",
    "from_clients",
    "from_csv",
    "from_dataset",
    "from_frames",
    "from_loader",
    "from_text",
    "load",
    "load_run",
    "load_table",
    "simulate",
    "tune",
    "verify",
    "write_report",
]


#: Packages that are reached as attributes: `fh.data.Dirichlet`.
_PACKAGES = {
    "data",
    "errors",
    "federations",
    "flower",
    "learners",
    "methods",
    "models",
    "policies",
    "privacy",
    "protocol",
    "research",
    "samplers",
    "schedules",
    "search",
    "testing",
    "trackers",
}


if not TYPE_CHECKING:  # else type checkers would take every name for one of ours

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(importlib.import_module(_HOME[name]), name)
        if name in _PACKAGES:
            return importlib.import_module(f"fedhpo.{name}")
        from fedhpo.core.words import NAMES

        hint = f": use {NAMES[name]}" if name in NAMES else ""
        raise AttributeError(f"module 'fedhpo' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_PACKAGES})
