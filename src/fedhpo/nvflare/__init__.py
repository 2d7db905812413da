"""Tuning over real clients, through NVIDIA FLARE.

`fedhpo.nvflare.recipe(name, study, run)` is a job for NVFlare's simulator or a deployment. See
docs/nvflare.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedhpo.core.lazy import lazy_names

_HOME = {
    "Arrays": "fedhpo.federations.remote.models",
    "Client": "fedhpo.nvflare.client",
    "NVFlareFederation": "fedhpo.federations.nvflare.federation",
    "NVFlareLearnerFederation": "fedhpo.federations.nvflare.federation",
    "Scored": "fedhpo.federations.remote.messages",
    "Script": "fedhpo.nvflare.script",
    "ScriptClient": "fedhpo.nvflare.script",
    "Server": "fedhpo.nvflare.server",
    "Task": "fedhpo.federations.remote.messages",
    "Trained": "fedhpo.federations.remote.messages",
    "recipe": "fedhpo.nvflare.job",
    "tune": "fedhpo.nvflare.server",
}

if TYPE_CHECKING:
    from fedhpo.federations.nvflare.federation import NVFlareFederation, NVFlareLearnerFederation
    from fedhpo.federations.remote.messages import Scored, Task, Trained
    from fedhpo.federations.remote.models import Arrays
    from fedhpo.nvflare.client import Client
    from fedhpo.nvflare.job import recipe
    from fedhpo.nvflare.script import Script, ScriptClient
    from fedhpo.nvflare.server import Server, tune

__all__ = [
    "Arrays",
    "Client",
    "NVFlareFederation",
    "NVFlareLearnerFederation",
    "Scored",
    "Script",
    "ScriptClient",
    "Server",
    "Task",
    "Trained",
    "recipe",
    "tune",
]


__getattr__ = lazy_names(__name__, _HOME, "nvflare", "nvflare")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
