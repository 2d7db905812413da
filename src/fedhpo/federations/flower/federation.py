"""The federations of real clients that are reached through the grid of a Flower `ServerApp`."""

from __future__ import annotations

from typing import Any, ClassVar

from flwr.serverapp import Grid
from torch import nn

from fedhpo.engine.flat import ModelFactory
from fedhpo.federations.flower.identity import RUNTIME
from fedhpo.federations.flower.transport import FlowerTransport
from fedhpo.federations.remote.estimators import RemoteEstimatorFederation
from fedhpo.federations.remote.federation import RemoteFederation
from fedhpo.federations.remote.learners import RemoteLearnerFederation
from fedhpo.federations.remote.models import Arrays
from fedhpo.learners.learner import Algorithms, Learner


class FlowerFederation(RemoteFederation):
    """Clients behind a Flower grid; the server's side of training happens here.

    `grid` is what Flower gives to a `ServerApp`, or an `InProcessGrid`; the rest is that of
    `RemoteFederation`.
    """

    runtime: ClassVar[str] = RUNTIME
    place = RUNTIME

    def __init__(self, grid: Grid, model: str | nn.Module | ModelFactory | Arrays, **settings: Any) -> None:
        super().__init__(FlowerTransport(grid), model, **settings)


class FlowerLearnerFederation(RemoteLearnerFederation):
    """Clients behind a Flower grid that boost trees; the rest is that of `RemoteLearnerFederation`."""

    runtime: ClassVar[str] = RUNTIME
    place = RUNTIME

    def __init__(self, grid: Grid, **settings: Any) -> None:
        super().__init__(FlowerTransport(grid), **settings)


class FlowerEstimatorFederation(RemoteEstimatorFederation):
    """Clients behind a Flower grid that fit estimators; the rest is that of `RemoteEstimatorFederation`."""

    runtime: ClassVar[str] = RUNTIME
    place = RUNTIME

    def __init__(self, grid: Grid, learner: Learner | Algorithms, **settings: Any) -> None:
        super().__init__(FlowerTransport(grid), learner, **settings)
