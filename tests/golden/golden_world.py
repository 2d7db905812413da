"""Data, a model and training functions of a user's own, which the golden studies name.

Kept runs hold digests of this code and of these rows: a change here makes them refuse to resume. Add beside,
never edit.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import fedhpo as fh


def _rows(rng, count, classes, features):
    """Rows around one centre for each class."""
    y = rng.integers(0, classes, count)
    centres = np.cos(np.arange(classes * features).reshape(classes, features))
    return (rng.normal(scale=0.7, size=(count, features)) + centres[y]).astype(np.float32), y


def clients(count=8, least=12):
    """Clients of 12, 13, 14 ... training rows with six features and three classes."""
    rng = np.random.default_rng(20)
    return fh.from_clients(
        [
            {
                "train": _rows(rng, least + i % 9, 3, 6),
                "validation": _rows(rng, 6 + i % 3, 3, 6),
                "test": _rows(rng, 4, 3, 6),
            }
            for i in range(count)
        ],
        classes=3,
    )


def many_clients():
    """Enough for a cohort of 40, from which on workers add up updates in groups."""
    return clients(48, 8)


def parties():
    """Three parties with 30 rows each, two classes, for learners."""
    rng = np.random.default_rng(21)
    return fh.from_clients(
        [{"train": _rows(rng, 30, 2, 4), "validation": _rows(rng, 12, 2, 4)} for _ in range(3)], classes=2
    )


class Network(nn.Module):
    """What the script of NVFlare's Client API trains."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))

    def forward(self, x):
        return self.layers(x)


def by_sign(model, data, hyperparameters, generator):
    """Train by the gradient's sign, in batches of a third of the rows, drawn from the generator."""
    loss = nn.CrossEntropyLoss()
    for _ in range(hyperparameters["steps"]):
        rows = torch.randperm(len(data.x), generator=generator)[: max(1, len(data.x) // 3)]
        grads = torch.autograd.grad(loss(model(data.x[rows]), data.y[rows]), list(model.parameters()))
        with torch.no_grad():
            for weights, gradient in zip(model.parameters(), grads, strict=True):
                weights -= hyperparameters["pace"] * gradient.sign()


def in_trouble(model, data, hyperparameters, generator):
    """As `by_sign`, but clients of 14 rows always fail, and those of 15 diverge at a high pace."""
    if len(data.x) == 14:
        raise ValueError("the reading is not finite at this site")
    by_sign(model, data, hyperparameters, generator)
    if len(data.x) == 15 and hyperparameters["pace"] > 0.05:
        with torch.no_grad():
            next(iter(model.parameters())).fill_(float("nan"))
