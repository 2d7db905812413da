"""Fingerprints of torch models: parameters and buffers by name, the modules' settings, first weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from fedhpo.core.fingerprint.code import Walk, name_of
from fedhpo.core.fingerprint.tensors import tensor_shape
from fedhpo.engine.factory import GivenModel, ZooModel
from fedhpo.engine.flat import ModelFactory, build
from fedhpo.engine.frozen import frozen_digests, joint_digest


def model_of(factory: ModelFactory, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of a model: its structure under these hyperparameters, and the code that builds it.

    Where a module was given, its weights too: they are every trial's first. Of frozen weights that all trials
    share there is a digest.

    >>> found = model_of(GivenModel(nn.Linear(3, 2)), {})
    >>> found["tensors"]["weight"], found["modules"][""]
    ('parameter (2, 3) float32', 'Linear(in_features=3, out_features=2, bias=True)')
    """
    walk = Walk()
    if isinstance(factory, ZooModel):
        name = factory.name
    elif isinstance(factory, GivenModel):
        name = name_of(factory.module)
        walk.visit(factory.module, "")
    else:
        name = name_of(factory)
        walk.visit(factory, "")
    try:
        module = build(factory, hyperparameters, 0)
    except Exception:  # the first trial's start says what is wrong
        return {"code": walk.fingerprint(name)}
    for part in module.modules():
        walk.visit(type(part), type(part).__qualname__)
    frozen = {}
    if not all(p.requires_grad for p in module.parameters()):
        frozen = {"frozen": joint_digest(frozen_digests(factory, hyperparameters))}
    return {"code": walk.fingerprint(name), **structure_of(module), **frozen}


def structure_of(module: nn.Module) -> dict[str, Any]:
    """Parameters and buffers by name, and every module that holds no others as it writes itself."""
    tensors = {}
    for name, parameter in module.named_parameters():
        kind = "parameter" if parameter.requires_grad else "frozen parameter"
        tensors[name] = f"{kind} {tensor_shape(parameter)}"
    for name, buffer in module.named_buffers():
        tensors[name] = f"buffer {tensor_shape(buffer)}"
    modules = {}
    for name, part in module.named_modules():
        children = any(True for _ in part.children())
        modules[name] = f"{type(part).__name__}({part.extra_repr()})" if children else repr(part)
    return {"tensors": tensors, "modules": modules}
