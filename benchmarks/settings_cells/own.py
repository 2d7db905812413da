"""What studies of the cells name: data, a training and a place of the user's own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fedhpo.data import load
from fedhpo.workers.place import InProcess
from fedhpo.workers.pool import Handler, Pool

#: How often the place below was opened.
OPENED: list[str] = []


@dataclass(frozen=True)
class NotedPlace:
    """This process, and a note that it was asked for."""

    def open(self, prepare: Callable[[], Handler[Any]]) -> Pool[Any]:
        """As any other place."""
        OPENED.append("opened")
        return InProcess().open(prepare)


def data(**options):
    """As the cells' data, from another seed."""
    return load("synthetic", **{**options, "seed": 11})


def train(model, data, hyperparameters, generator):
    """One step of SGD on all rows."""
    loss = torch.nn.functional.cross_entropy(model(data.x), data.y)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= float(hyperparameters["lr"]) * gradient


def half_steps(after):
    """In a process of an NVFlare job: its steps are half as long."""

    def halved(module):
        module.Mover.__init__ = lambda self, scale: setattr(self, "scale", scale / 2)

    after("work", halved)
