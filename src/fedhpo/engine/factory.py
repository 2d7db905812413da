"""What a user may call a model, as a factory that worker processes can import."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from torch import nn

from fedhpo.core.errors import InputError
from fedhpo.data import FederatedData
from fedhpo.engine.flat import ModelFactory
from fedhpo.engine.tensors import check_tensors, hooked
from fedhpo.models import MODELS, models


@dataclass(frozen=True)
class ZooModel:
    """One of our own models, fitted to the data's shape and classes."""

    name: str
    shape: tuple[int, ...]
    classes: int

    def __call__(self, **hyperparameters: Any) -> nn.Module:
        from fedhpo.models import build

        return build(self.name, self.shape, self.classes, **hyperparameters)


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A module that the user built: every trial starts from its weights."""

    module: nn.Module

    def __call__(self) -> nn.Module:
        return copy.deepcopy(self.module)


def model_factory(model: Any, data: FederatedData) -> ModelFactory:
    """A factory for a name of `fedhpo.models`, a module, or a callable that builds one."""
    if isinstance(model, str):
        if model not in MODELS:
            return _own_model(model)
        return ZooModel(model, data.shape, data.classes if data.classes is not None else 1)
    if isinstance(model, nn.Module):
        check_tensors(model)  # what two tensors share in memory cannot be seen in copies
        if names := hooked(model):
            raise InputError(
                f"the model's {names[0]} has a hook on its gradient, which copies of the model lack: "
                "give a function that builds the model and registers the hook"
            )
        return GivenModel(model)
    if callable(model):
        factory: ModelFactory = model
        return factory
    raise InputError(
        f"model must be a name, a torch.nn.Module or a callable that builds one, not {type(model).__name__}"
    )


def _own_model(name: str) -> ModelFactory:
    """The object that a name of the user's refers to."""
    if not models.brings(name):
        raise InputError(f"{models.unknown(name)}; or give a torch.nn.Module, or a function that builds one")
    found: ModelFactory = models.find(name)
    return found
