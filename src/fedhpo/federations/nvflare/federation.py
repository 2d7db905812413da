"""The federations of real clients that a job of NVFlare's reaches.

Each is one of `fedhpo.federations.remote` with the job's sites as its transport.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from fedhpo.engine.flat import ModelFactory
from fedhpo.federations.nvflare.transport import CollabTransport, Proxy
from fedhpo.federations.remote.estimators import RemoteEstimatorFederation
from fedhpo.federations.remote.federation import RemoteFederation
from fedhpo.federations.remote.learners import RemoteLearnerFederation
from fedhpo.federations.remote.models import Arrays
from fedhpo.learners.learner import Algorithms, Learner


def NVFlareFederation(
    sites: Iterable[Proxy], model: str | nn.Module | ModelFactory | Arrays, **settings: Any
) -> RemoteFederation:
    """The sites of an NVFlare job; the server's side of training happens here.

    `sites` is `collab.clients`, inside a `@collab.main`; the rest is that of `RemoteFederation`.
    """
    return RemoteFederation(CollabTransport(sites), model, **settings)


def NVFlareLearnerFederation(sites: Iterable[Proxy], **settings: Any) -> RemoteLearnerFederation:
    """The sites of an NVFlare job that boost trees; the rest is that of `RemoteLearnerFederation`."""
    return RemoteLearnerFederation(CollabTransport(sites), **settings)


def NVFlareEstimatorFederation(
    sites: Iterable[Proxy], learner: Learner | Algorithms, **settings: Any
) -> RemoteEstimatorFederation:
    """The sites of an NVFlare job that fit estimators; the rest is that of `RemoteEstimatorFederation`."""
    return RemoteEstimatorFederation(CollabTransport(sites), learner, **settings)
