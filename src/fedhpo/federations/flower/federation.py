"""The federations of real clients that are reached through the grid of a Flower `ServerApp`.

Each is one of `fedhpo.federations.remote` with Flower's grid as its transport.
"""

from __future__ import annotations

from typing import Any

from flwr.serverapp import Grid
from torch import nn

from fedhpo.engine.flat import ModelFactory
from fedhpo.federations.flower.transport import FlowerTransport
from fedhpo.federations.remote.estimators import RemoteEstimatorFederation
from fedhpo.federations.remote.federation import RemoteFederation
from fedhpo.federations.remote.learners import RemoteLearnerFederation
from fedhpo.federations.remote.models import Arrays
from fedhpo.learners.learner import Algorithms, Learner


def FlowerFederation(
    grid: Grid, model: str | nn.Module | ModelFactory | Arrays, **settings: Any
) -> RemoteFederation:
    """Clients behind a Flower grid; the server's side of training happens here.

    `grid` is what Flower gives to a `ServerApp`, or an `InProcessGrid`; the rest is that of
    `RemoteFederation`.
    """
    return RemoteFederation(FlowerTransport(grid), model, **settings)


def FlowerLearnerFederation(grid: Grid, **settings: Any) -> RemoteLearnerFederation:
    """Clients behind a Flower grid that boost trees; the rest is that of `RemoteLearnerFederation`."""
    return RemoteLearnerFederation(FlowerTransport(grid), **settings)


def FlowerEstimatorFederation(
    grid: Grid, learner: Learner | Algorithms, **settings: Any
) -> RemoteEstimatorFederation:
    """Clients behind a Flower grid that fit estimators; the rest is that of `RemoteEstimatorFederation`."""
    return RemoteEstimatorFederation(FlowerTransport(grid), learner, **settings)
