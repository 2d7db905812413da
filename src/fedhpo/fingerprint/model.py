"""Fingerprints of torch models: parameters and buffers by name, the modules' settings, first weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from fedhpo.engine.factory import GivenModel, ZooModel
from fedhpo.engine.flat import ModelFactory, build
from fedhpo.fingerprint.code import Walk, name_of
from fedhpo.fingerprint.rows import array_digest


def model_of(factory: ModelFactory, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of a model: its structure under these hyperparameters, and the code that builds it.

    Where a module was given, its weights too: they are every trial's first.

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
    except Exception:  # what is wrong with it is said when the first trial starts
        return {"code": walk.fingerprint(name)}
    for part in module.modules():
        walk.visit(type(part), type(part).__qualname__)
    return {"code": walk.fingerprint(name), **structure_of(module)}


def structure_of(module: nn.Module) -> dict[str, Any]:
    """Parameters and buffers by name, and every module that holds no others as it writes itself."""
    tensors = {}
    for name, parameter in module.named_parameters():
        kind = "parameter" if parameter.requires_grad else "frozen parameter"
        tensors[name] = f"{kind} {_shape(parameter)}"
    for name, buffer in module.named_buffers():
        tensors[name] = f"buffer {_shape(buffer)}"
    modules = {}
    for name, part in module.named_modules():
        children = any(True for _ in part.children())
        modules[name] = f"{type(part).__name__}({part.extra_repr()})" if children else repr(part)
    return {"tensors": tensors, "modules": modules}


def weights_digest(module: nn.Module) -> str:
    """A digest of all parameters and buffers."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        digest.update(f"{name} {tensor_digest(tensor)};".encode())
    return digest.hexdigest()


def tensor_digest(tensor: torch.Tensor) -> str:
    """A digest of a tensor: type, shape and content, wherever and however it is stored."""
    plain = tensor.detach().to("cpu").to_dense().resolve_conj().resolve_neg().contiguous()
    raw = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else np.empty(0)
    return hashlib.blake2b(f"{_shape(tensor)} {array_digest(raw)}".encode(), digest_size=16).hexdigest()


def _shape(tensor: torch.Tensor) -> str:
    shape = f"({', '.join(map(str, tensor.shape))})"
    return f"{shape} {str(tensor.dtype).removeprefix('torch.')}"
