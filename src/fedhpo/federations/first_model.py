"""A trial's first torch model, built by the user's factory; the factory's mistakes are reported here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from torch import nn

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.engine import flat
from fedhpo.engine.flat import FlatModel, ModelFactory


def fresh_model(factory: ModelFactory, hyperparameters: Mapping[str, Any], seed: int) -> FlatModel:
    """The model that a trial with this seed begins with.

    >>> fresh_model(lambda width: nn.Linear(width, 2), {"width": 3}, seed=0).size
    8
    """
    try:
        return FlatModel(flat.build(factory, hyperparameters, derive(seed, "model")))
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
