"""A small zoo of models, by name.

`build` makes one from the shape of a sample and the number of classes; everything else about it is
a hyperparameter of the `model` scope. Images reach a model as float32 in the order (batch,
channels, height, width), tokens as int64 (batch, length). Weights come from torch's global
generator: seed it to repeat them. No model has batch statistics, which cannot be averaged.

>>> model = build("mlp", shape=(64,), classes=10, hidden=16)
>>> sum(parameter.numel() for parameter in model.parameters())
1210
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import unknown_name
from fedhpo.core.registry import Registry
from fedhpo.core.settings import whole_number

if TYPE_CHECKING:
    from torch import nn

# The module of each; torch is imported with it, when a model is built.
_MODULES = {
    "linear": "linear",
    "mlp": "mlp",
    "cnn_small": "cnn",
    "cnn_cifar": "cnn",
    "cnn_femnist": "cnn",
    "cnn_leaf": "cnn",
    "lstm": "lstm",
    "resnet18_gn": "resnet",
}
MODELS = tuple(_MODULES)
#: Names of models, ours and others; what has one of the others builds a module from its hyperparameters.
models: Registry[Any] = Registry("model", dict.fromkeys(MODELS))


def build(name: str, shape: Sequence[int], classes: int, **hyperparameters: Any) -> nn.Module:
    """A new model for samples of `shape`, with one output per class.

    >>> build("perceptron", (64,), 10)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    fedhpo.InputError: unknown model 'perceptron'; known: cnn_cifar, ...
    """
    from fedhpo.models._checks import sizes

    make, known = _builder(name), hyperparameter_defaults(name)
    for key in hyperparameters:
        if key not in known:
            raise unknown_name(f"hyperparameter of model {name}", key, known)
    model: nn.Module = make(sizes("shape", shape), whole_number("classes", classes), **hyperparameters)
    return model


def hyperparameter_defaults(name: str) -> Mapping[str, Any]:
    """What a model lets one choose, with the defaults.

    >>> hyperparameter_defaults("mlp")
    {'hidden': (32,), 'layers': None, 'dropout': 0.0}
    """
    parameters = inspect.signature(_builder(name)).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def _builder(name: str) -> Callable[..., Any]:
    if name not in _MODULES:
        raise unknown_name("model", name, MODELS)
    builder: Callable[..., Any] = getattr(importlib.import_module(f"fedhpo.models.{_MODULES[name]}"), name)
    return builder
