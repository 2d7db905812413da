"""Multinomial logistic regression."""

from __future__ import annotations

import math

from torch import nn

from fedhpo.models.input import Input


def linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(Input(shape), nn.Flatten(), nn.Linear(math.prod(shape), classes))
