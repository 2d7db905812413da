"""Fully connected layers with ReLU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number
from fedhpo.models._checks import rate, sizes
from fedhpo.models.input import Input


def mlp(
    shape: tuple[int, ...],
    classes: int,
    *,
    hidden: int | Sequence[int] = (32,),
    layers: int | None = None,
    dropout: float = 0.0,
) -> nn.Module:
    """`hidden` lists the widths of the hidden layers, or is the width of all `layers` of them."""
    if isinstance(hidden, int):
        widths = (whole_number("hidden", hidden),) * (1 if layers is None else whole_number("layers", layers))
    elif layers is None:
        widths = sizes("hidden", hidden)
    else:
        raise InputError(f"layers goes with one width, found layers={layers!r} and hidden={hidden!r}")
    modules: list[nn.Module] = [Input(shape), nn.Flatten()]
    inputs = math.prod(shape)
    for width in widths:
        modules += [nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(rate("dropout", dropout))]
        inputs = width
    return nn.Sequential(*modules, nn.Linear(inputs, classes))
