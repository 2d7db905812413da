"""A trial's first torch model, built by the user's factory; the factory's mistakes are reported here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from torch import nn

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.frozen import Shapes
from fedhpo.engine.local import dropout_layers


def fresh_model(shapes: Shapes, hyperparameters: Mapping[str, Any], seed: int) -> FlatModel:
    """The model that a trial with this seed begins with.

    >>> fresh_model(Shapes(lambda width: nn.Linear(width, 2)), {"width": 3}, seed=0).size
    8
    """
    try:
        return shapes.build(hyperparameters, derive(seed, "model"))
    except TypeError as error:
        raise InputError(f"the model cannot be built with {dict(hyperparameters)}: {error}") from error


def warn_of_batch_norm(module: nn.Module) -> None:
    """Warn if a model has layers whose statistics cannot be averaged meaningfully."""
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules()):
        warnings.warn(
            "the model has BatchNorm layers: averaging their statistics over clients with different "
            "data is not meaningful; GroupNorm is the usual choice in federated learning",
            stacklevel=6,
        )


def warn_of_no_dropout(module: nn.Module, client: Mapping[str, Any]) -> None:
    """Warn if a dropout rate is given and the model has no layer that takes it."""
    if client.get("dropout") is not None and not dropout_layers(module):
        warnings.warn(
            f"client.dropout = {client['dropout']:g}: has no effect, as the model has no dropout layers (a "
            "call of torch.nn.functional.dropout has its own rate): leave it out, or add nn.Dropout",
            stacklevel=6,
        )


def warn_of_drawn(model: FlatModel) -> None:
    """Warn where frozen weights travel, because every trial draws its own."""
    named = model.module.named_parameters()
    own = [p for name, p in named if not p.requires_grad and name not in model.frozen]
    size = sum(p.numel() for p in own if p.is_floating_point())
    if size > model.trainable_size // 10:
        warnings.warn(
            f"{size:,} frozen numbers of the model are drawn anew by every build: they belong to each trial, "
            f"and travel with the {model.trainable_size:,} that are trained; to share them load them from a "
            "file, or draw them with a fixed seed in the function that builds the model",
            stacklevel=6,
        )
