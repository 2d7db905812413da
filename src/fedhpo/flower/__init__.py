"""Tuning over real clients, through Flower.

On the server `fedhpo.flower.tune(grid, context, study)` is all that a `ServerApp` has to say; on the client
`fedhpo.flower.client(app, ...)`, or `fedhpo.federations.flower.messages` in a `ClientApp` of your own.
See docs/flower.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedhpo.core.lazy import lazy_names

# Names are imported when they are used, so that what needs no torch (a client's own training) gets none.
_HOME = {
    "Arrays": "fedhpo.federations.remote.models",
    "FlowerEstimatorFederation": "fedhpo.federations.flower.federation",
    "FlowerFederation": "fedhpo.federations.flower.federation",
    "FlowerLearnerFederation": "fedhpo.federations.flower.federation",
    "InProcessGrid": "fedhpo.federations.flower.in_process",
    "Scored": "fedhpo.federations.remote.messages",
    "Task": "fedhpo.federations.remote.messages",
    "Trained": "fedhpo.federations.remote.messages",
    "client": "fedhpo.flower.client_app",
    "local_search": "fedhpo.flower.client_app",
    "tuned": "fedhpo.flower.server_app",
    "wrap": "fedhpo.federations.apps.wrapper",
    "run_in_process": "fedhpo.federations.flower.in_process",
    "tune": "fedhpo.flower.server_app",
}

if TYPE_CHECKING:
    from fedhpo.federations.apps.wrapper import wrap
    from fedhpo.federations.flower.federation import (
        FlowerEstimatorFederation,
        FlowerFederation,
        FlowerLearnerFederation,
    )
    from fedhpo.federations.flower.in_process import InProcessGrid, run_in_process
    from fedhpo.federations.remote.messages import Scored, Task, Trained
    from fedhpo.federations.remote.models import Arrays
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


__getattr__ = lazy_names(__name__, _HOME, "flwr", "flower")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
