"""A model's floating-point state as one flat float32 vector: trainable parameters first, then the rest.

"The rest" are floating-point buffers (running statistics of BatchNorm, ...), and frozen parameters that each
trial draws for itself. Those that all trials share are outside: see `fedhpo.engine.frozen`.
"""

from __future__ import annotations

import json
import math
import random
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from fedhpo.core.errors import InputError
from fedhpo.core.streams import other_generators, torch_generator
from fedhpo.core.vectors import Vector
from fedhpo.engine.tensors import check_tensors, own_memory
from fedhpo.models.lora import with_formulas
from fedhpo.protocol.errors import FrozenChanged as FrozenChanged
from fedhpo.protocol.reasons import Reason, Why, ours

ModelFactory = Callable[..., nn.Module]

#: Modules that factories have returned.
_BUILT: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def _mark(parameter: nn.Parameter) -> tuple[int, int, bool]:
    """Memory and version of a parameter: every change in place that torch knows of counts the version up."""
    return parameter.data_ptr(), parameter._version, parameter.requires_grad


class FlatModel:
    """A module, and the flat vector its state is read from and written to; tensors `outside` are no state.

    Parameters `by_rows` are trained, and somebody else loads and reads them: see `fedhpo.engine.rows`.
    """

    def __init__(
        self, module: nn.Module, outside: Collection[str] = (), by_rows: Collection[str] = ()
    ) -> None:
        self.module = module
        tensors = dict(module.named_parameters())
        self.trainable = {name: p for name, p in tensors.items() if p.requires_grad}
        still = {name: p for name, p in tensors.items() if not p.requires_grad}
        #: Parameters that are neither trained nor part of the state.
        self.frozen = {name: p for name, p in still.items() if name in outside}
        fixed: dict[str, torch.Tensor] = {name: p for name, p in still.items() if name not in self.frozen}
        fixed |= dict(module.named_buffers())
        floating = [name for name, t in fixed.items() if t.is_floating_point() and name not in outside]
        self.parameters = list(self.trainable.values())
        #: Names of the state's tensors, in the vector's order.
        self.names = [name for name in (*self.trainable, *floating) if name not in by_rows]
        self._homes = [self._home(name) for name in self.names]
        # Counters and the like do not travel; every training finds them as they were built.
        self._counters = [
            (self._home(name), tensor.data.clone())
            for name, tensor in fixed.items()
            if not tensor.is_floating_point() or name in outside
        ]
        self.trainable_size = sum(p.numel() for p in self.parameters)
        self.size = sum(t.numel() for t in self._tensors)
        self._memory: torch.Tensor | None = None
        self.seal()

    def seal(self) -> None:
        """Remember the frozen parameters as they are now."""
        self._sealed = [_mark(p) for p in self.frozen.values()]

    def check_frozen(self) -> None:
        """Refuse a training that changed a frozen parameter, which all trials share."""
        for (name, p), mark in zip(self.frozen.items(), self._sealed, strict=True):
            if _mark(p) != mark:
                raise FrozenChanged(
                    f"training changed the model's {name}, which was frozen (requires_grad=False) when the "
                    "model was built: all trials share frozen parameters; build the model with it unfrozen"
                )

    def unite(self) -> torch.Tensor:
        """Lay all the state's tensors into one vector, in their order, and return it."""
        memory = torch.cat([tensor.reshape(-1) for tensor in self._tensors])
        parts = self._split(memory)
        for (home, name), part in zip(self._homes, parts, strict=True):
            tensor = home[name]
            assert tensor is not None
            tensor.data = part
        self._memory = memory
        return memory

    def _home(self, name: str) -> tuple[dict[str, torch.Tensor | None], str]:
        """Where the module keeps a tensor."""
        path, _, own = name.rpartition(".")
        owner = self.module.get_submodule(path)
        return (owner._parameters if own in owner._parameters else owner._buffers), own  # type: ignore[return-value]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the state's tensors, in the vector's order."""
        return {name: tuple(t.shape) for name, t in zip(self.names, self._tensors, strict=True)}

    @property
    def _tensors(self) -> list[torch.Tensor]:
        """The state's tensors now: a model's own code may put others in their place (`p.data = ...`)."""
        found = [home[name] for home, name in self._homes]
        return [tensor.data for tensor in found if tensor is not None]

    def load(self, vector: Vector) -> None:
        """Set the module's state."""
        if self._memory is not None:
            self._memory.copy_(torch.from_numpy(vector))
            return
        for tensor, part in zip(self._tensors, self._split(torch.from_numpy(vector)), strict=True):
            tensor.copy_(part)
        for (home, name), built in self._counters:
            if isinstance(home[name], nn.Parameter):
                home[name].data = built.clone()  # type: ignore[union-attr]
            else:
                home[name] = built.clone()

    def write(self, vector: Vector) -> None:
        """Write the module's state into `vector`."""
        if self._memory is not None:
            torch.from_numpy(vector).copy_(self._memory)
            return
        for tensor, part in zip(self._tensors, self._split(torch.from_numpy(vector)), strict=True):
            part.copy_(tensor)

    def write_change(self, start: Vector, change: Vector) -> None:
        """Write state minus `start` into `change`."""
        if self._memory is not None:
            torch.sub(self._memory.to("cpu"), torch.from_numpy(start), out=torch.from_numpy(change))
            return
        parts = zip(
            self._tensors,
            self._split(torch.from_numpy(start)),
            self._split(torch.from_numpy(change)),
            strict=True,
        )
        for tensor, before, part in parts:
            torch.sub(tensor.to("cpu"), before, out=part)

    def change(self, start: Vector, room: Vector) -> Vector:
        """State minus `start`, in `room`, or in the module's own memory where that is one vector.

        The module is of no use afterwards until it is loaded again.
        """
        if self._memory is not None and self._memory.device.type == "cpu":
            own: Vector = self._memory.sub_(torch.from_numpy(start)).numpy()
            return own
        self.write_change(start, room)
        return room

    def vector(self) -> Vector:
        """The module's state as a new vector."""
        vector = np.empty(self.size, np.float32)
        self.write(vector)
        return vector

    def _split(self, vector: torch.Tensor) -> list[torch.Tensor]:
        parts, offset = [], 0
        for tensor in self._tensors:
            size = tensor.numel()
            parts.append(vector[offset : offset + size].view(tensor.shape))
            offset += size
        return parts


def build(factory: ModelFactory, hyperparameters: Mapping[str, Any], seed: int = 0) -> nn.Module:
    """A model of this shape; what it draws follows `seed` and leaves the global generators alone.

    Also where the weights are replaced later: whole-number buffers and plain attributes (a random
    order of the features, say) do not travel, and must be the same in every worker.
    """
    with torch_generator(), other_generators():
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)
        module = factory(**with_formulas(factory, hyperparameters))
    if not isinstance(module, nn.Module):
        raise TypeError(f"the model factory returned {type(module).__name__}, not a torch.nn.Module")
    if module in _BUILT:
        raise InputError(
            "the model factory returned the same module twice, with the weights that it has by now: build a "
            "new one in every call, or give the module itself as the model"
        )
    _BUILT.add(module)
    check_tensors(module)
    own_memory(module)
    return module


def shape_key(hyperparameters: Mapping[str, Any]) -> str:
    """A canonical name for a model shape."""
    return json.dumps(dict(hyperparameters), sort_keys=True)


def check_update(update: Vector, size: int) -> Reason | None:
    """Why an update must not be averaged, or None if it may."""
    if update.shape != (size,):
        return ours(Why.REJECTED, f"update of shape {tuple(update.shape)}, expected ({size},)")
    return None if finite(update) else Reason(Why.DIVERGED)


def finite(*vectors: Vector) -> bool:
    """Whether all numbers are finite."""
    # One pass without a temporary: the sum is finite only if every term is. Finite terms may
    # overflow together, so a suspect is looked at in full.
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = [v for v in vectors if not math.isfinite(float(np.add.reduce(v)))]
    return all(bool(np.isfinite(v).all()) for v in suspects)
