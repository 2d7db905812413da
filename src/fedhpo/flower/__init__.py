"""Tuning over real clients, through Flower.

On the server `fedhpo.flower.tune(grid, context, study)` is all that a `ServerApp` has to say; on the client
`fedhpo.flower.client(app, ...)`, or `fedhpo.federations.flower.messages` in a `ClientApp` of your own.
See docs/flower.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Names are imported when they are used, so that what needs no torch (a client's own training) gets none.
_HOME = {
    "Arrays": "fedhpo.federations.flower.models",
    "FlowerEstimatorFederation": "fedhpo.federations.flower.estimators",
    "FlowerFederation": "fedhpo.federations.flower.federation",
    "FlowerLearnerFederation": "fedhpo.federations.flower.learners",
    "InProcessGrid": "fedhpo.federations.flower.in_process",
    "Scored": "fedhpo.federations.flower.messages",
    "Task": "fedhpo.federations.flower.messages",
    "Trained": "fedhpo.federations.flower.messages",
    "client": "fedhpo.flower.client_app",
    "local_search": "fedhpo.flower.client_app",
    "tuned": "fedhpo.flower.server_app",
    "wrap": "fedhpo.federations.apps.wrapper",
    "run_in_process": "fedhpo.federations.flower.in_process",
    "tune": "fedhpo.flower.server_app",
}

if TYPE_CHECKING:
    from fedhpo.federations.apps.wrapper import wrap
    from fedhpo.federations.flower.estimators import FlowerEstimatorFederation
    from fedhpo.federations.flower.federation import FlowerFederation
    from fedhpo.federations.flower.in_process import InProcessGrid, run_in_process
    from fedhpo.federations.flower.learners import FlowerLearnerFederation
    from fedhpo.federations.flower.messages import Scored, Task, Trained
    from fedhpo.federations.flower.models import Arrays
    from fedhpo.flower.client_app import client, local_search
    from fedhpo.flower.server_app import tune, tuned

__all__ = [
    "Arrays",
    "FlowerEstimatorFederation",
    "FlowerFederation",
    "FlowerLearnerFederation",
    "InProcessGrid",
    "Scored",
    "Task",
    "Trained",
    "client",
    "local_search",
    "run_in_process",
    "tune",
    "tuned",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedhpo.flower' has no attribute {name!r}")
    try:
        home = importlib.import_module(_HOME[name])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "flwr":
            raise
        from fedhpo.core.errors import MissingExtraError

        raise MissingExtraError("flwr", "flower") from error
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
