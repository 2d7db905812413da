"""Frozen tensors: what every trial of a model shape shares, outside of the trials' state.

A parameter with `requires_grad=False` is never trained. Where its numbers are the same whatever the seed, as
those of a pretrained base, it is no part of a trial: no vector, checkpoint, message or average holds it. A
worker keeps one copy, which all its trials and model shapes share. Frozen numbers that the builder draws from
the trial's seed differ from trial to trial: they stay in the trial's state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fedhpo.core.canonical import canonical
from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError
from fedhpo.core.fingerprint.tensors import tensor_digest
from fedhpo.engine import flat
from fedhpo.engine.flat import FlatModel, ModelFactory

#: The seeds of the two builds that show what is drawn: a fixed rule, alike at server and clients.
_SEEDS = 0, 1
#: By name, the digest of a tensor that all trials share.
Digests = Mapping[str, str]


def frozen_digests(factory: ModelFactory, hyperparameters: Mapping[str, Any]) -> Digests:
    """The tensors outside of the state of models of this shape, by name.

    >>> def tuned(base=torch.ones(2, 3)):
    ...     model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 2))
    ...     model[0].weight = nn.Parameter(base.clone(), requires_grad=False)
    ...     return model
    >>> list(frozen_digests(tuned, {})), dict(frozen_digests(lambda: nn.Linear(3, 2), {}))
    (['0.weight'], {})
    """
    found = _digests(flat.build(factory, hyperparameters, _SEEDS[0]))
    if not found:
        return {}
    other = flat.build(factory, hyperparameters, _SEEDS[1])
    again = _digests(other)
    drawn = [name for name, own in found.items() if again.get(name) != own]
    named = dict(other.named_parameters())
    for name in drawn:
        if name in named and named[name].is_floating_point() and named[name].dtype != torch.float32:
            raise InputError(
                f"the model's {name} is frozen, {named[name].dtype}, and drawn anew by every build: load it, "
                "or draw it from a generator of its own with a fixed seed, so that all trials share it"
            )
    return {name: own for name, own in found.items() if name not in drawn}


def joint_digest(digests: Digests) -> str:
    """One digest of all shared tensors, for fingerprints and messages."""
    return digest(canonical(dict(digests))).hex()


def _digests(module: nn.Module) -> dict[str, str]:
    """Of frozen parameters, and of buffers that are no state of a model which has some."""
    frozen = {name: p for name, p in module.named_parameters() if not p.requires_grad}
    if not frozen:
        return {}
    return {name: tensor_digest(tensor) for name, tensor in (frozen | _constant_buffers(module)).items()}


def _constant_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Floating-point buffers that `state_dict` leaves out (tables of positions), or that are not float32."""
    temporary = {
        f"{path}.{name}" if path else name
        for path, part in module.named_modules()
        for name in part._non_persistent_buffers_set
    }
    return {
        name: buffer
        for name, buffer in module.named_buffers()
        if buffer.is_floating_point() and (name in temporary or buffer.dtype != torch.float32)
    }


class Shapes:
    """Builds models by a factory, with the same tensors outside of the state for each shape."""

    def __init__(self, factory: ModelFactory) -> None:
        self.factory = factory
        self._known: dict[str, Digests] = {}

    def frozen(self, hyperparameters: Mapping[str, Any]) -> Digests:
        """The tensors that all trials of a shape share, by name."""
        shape = flat.shape_key(hyperparameters)
        if shape not in self._known:
            self._known[shape] = frozen_digests(self.factory, hyperparameters)
        return self._known[shape]

    def build(self, hyperparameters: Mapping[str, Any], seed: int = _SEEDS[0]) -> FlatModel:
        """A model of this shape, with memory of its own."""
        module = flat.build(self.factory, hyperparameters, seed)
        if all(p.requires_grad for p in module.parameters()):
            self._known[flat.shape_key(hyperparameters)] = {}
            return FlatModel(module)
        shared = self.frozen(hyperparameters)
        if seed not in _SEEDS:
            _check_same(module, shared)
        return FlatModel(module, shared)


def _check_same(module: nn.Module, shared: Digests) -> None:
    found = _digests(module)
    for name, known in shared.items():
        if found.get(name) != known:
            raise InputError(
                f"the model's {name} is frozen, and the builder gave it other numbers than before: all "
                "trials share frozen weights; load the same ones in every call"
            )


class Pool:
    """One copy of each frozen tensor of a worker, whatever model has it."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, tuple[int, ...], torch.device], Tensor] = {}

    def adopt(self, module: nn.Module) -> None:
        """Hold a module's frozen parameters, so that copies of it need no memory for them."""
        for parameter in module.parameters():
            if not parameter.requires_grad:
                self._shared(tensor_digest(parameter), parameter.data)

    def share(self, model: FlatModel, digests: Digests) -> None:
        """Let a model's frozen parameters lie in the memory that is held already."""
        for name, parameter in model.frozen.items():
            parameter.data = self._shared(digests[name], parameter.data)
        model.seal()

    def _shared(self, digest: str, tensor: Tensor) -> Tensor:
        return self._held.setdefault((digest, tensor.stride(), tensor.device), tensor)


def shape_hyperparameters(shape: str) -> dict[str, Any]:
    """The hyperparameters that `flat.shape_key` named."""
    found: dict[str, Any] = json.loads(shape)
    return found
