"""The federations of real clients that a job of NVFlare's reaches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from fedhpo.core.errors import InputError
from fedhpo.engine.flat import ModelFactory
from fedhpo.federations.nvflare.transport import RUNTIME, CollabTransport, Proxy
from fedhpo.federations.remote.estimators import RemoteEstimatorFederation
from fedhpo.federations.remote.federation import RemoteFederation
from fedhpo.federations.remote.learners import RemoteLearnerFederation
from fedhpo.federations.remote.models import Arrays
from fedhpo.learners.learner import Algorithms, Learner


class NVFlareFederation(RemoteFederation):
    """The sites of an NVFlare job; the server's side of training happens here.

    `sites` is `collab.clients`, inside a `@collab.main`; the rest is that of `RemoteFederation`.
    """

    runtime: ClassVar[str] = RUNTIME
    place = RUNTIME

    def __init__(
        self, sites: Iterable[Proxy], model: str | nn.Module | ModelFactory | Arrays, **settings: Any
    ) -> None:
        transport, settings = _ready(sites, settings)
        super().__init__(transport, model, **settings)


class NVFlareLearnerFederation(RemoteLearnerFederation):
    """The sites of an NVFlare job that boost trees; the rest is that of `RemoteLearnerFederation`."""

    runtime: ClassVar[str] = RUNTIME
    place = RUNTIME

    def __init__(self, sites: Iterable[Proxy], **settings: Any) -> None:
        transport, settings = _ready(sites, settings)
        super().__init__(transport, **settings)


class NVFlareEstimatorFederation(RemoteEstimatorFederation):
    """The sites of an NVFlare job that fit estimators; the rest is that of `RemoteEstimatorFederation`."""

    runtime: ClassVar[str] = RUNTIME
    place = RUNTIME

    def __init__(self, sites: Iterable[Proxy], learner: Learner | Algorithms, **settings: Any) -> None:
        transport, settings = _ready(sites, settings)
        super().__init__(transport, learner, **settings)


def _ready(sites: Iterable[Proxy], settings: dict[str, Any]) -> tuple[CollabTransport, dict[str, Any]]:
    """The transport, and settings under which the mailbox rests until a reply comes."""
    transport = CollabTransport(sites)
    there, wanted, file = (
        len(list(transport.nodes())),
        settings.get("clients", 1),
        settings.get("clients_file"),
    )
    if there < wanted and not (file and Path(file).exists()):  # a run that goes on takes whoever is there
        raise InputError(
            f"nvflare.clients = {wanted}: the job has {there}, and none can join a job that runs; submit it "
            f"with min_clients = {wanted}, or ask for fewer"
        )
    return transport, {"sleep": transport.wait} | settings
