"""Which models are chains of simple layers: their gradients can be written down without autograd.

A model is read by watching one forward pass, so that `F.relu(self.first(x))` counts like `nn.Sequential`.
What cannot be read with certainty is no chain: anything else that is done with the data, branches that look
at it or at how many rows there are, tied or frozen parameters, hooks, code that changes the module or draws
random numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedhpo.core.streams import other_generators, torch_generator
from fedhpo.engine.device import generator_states
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.local import set_dropout
from fedhpo.engine.tensors import hooked
from fedhpo.models.input import Input

#: Layers that a chain may have; classes derived from these do something else.
LAYERS = (nn.Linear, nn.ReLU, nn.Tanh, nn.GELU, nn.Dropout, nn.Flatten, nn.LayerNorm, nn.Identity, Input)
#: Functions that do what a layer does, with the same arguments after the first.
_FUNCTIONS: Mapping[Any, type[nn.Module]] = {
    torch.relu: nn.ReLU,
    F.relu: nn.ReLU,
    Tensor.relu: nn.ReLU,
    torch.tanh: nn.Tanh,
    Tensor.tanh: nn.Tanh,
    F.gelu: nn.GELU,
    torch.flatten: nn.Flatten,
    Tensor.flatten: nn.Flatten,
}
#: What a model may ask of the data: its shape.
_SHAPE = (Tensor.shape.__get__, Tensor.ndim.__get__, Tensor.size, Tensor.dim)  # type: ignore[attr-defined]
#: How often a model that seems to draw random numbers is looked at.
_LOOKS = 3
_RESHAPES = (Tensor.view, Tensor.reshape, torch.reshape)


def chain_of(model: FlatModel, x: Tensor) -> list[nn.Module] | None:
    """The model's layers in their order, or None where it is no chain; `x` are a few rows to try it on.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    >>> [type(layer).__name__ for layer in chain_of(FlatModel(net), torch.ones(2, 6))]
    ['Flatten', 'Linear', 'ReLU', 'Linear']
    >>> chain_of(FlatModel(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())), torch.ones(2, 4)) is None
    True
    """
    module = model.module
    if (
        not isinstance(x, Tensor)
        or not x.is_floating_point()
        or len(x) < 2
        or model.frozen
        or model.size != model.trainable_size
    ):
        return None
    if _altered(module) or not _simple(module):
        return None
    before = _attributes(module)
    try:
        with torch_generator(), other_generators(), torch.no_grad():
            set_dropout(module, 0.0)  # a layer that drops nothing draws nothing
            layers = _undrawn(module.train(), x)
    except Exception:  # what fails always will be told in training
        return None
    finally:
        set_dropout(module, None)
    if layers is None or _attributes(module) != before:
        return None
    own = [p for layer in layers for p in layer.parameters()]
    same = len(own) == len(model.parameters) and {id(p) for p in own} == {id(p) for p in model.parameters}
    return layers if same else None


def _undrawn(module: nn.Module, x: Tensor) -> list[nn.Module] | None:
    """The layers that a forward pass goes through; None also where it draws random numbers.

    Threads share the generators. One of some library's that draws meanwhile, such as a heartbeat, must not
    decide how a model is trained: so there is another look.
    """
    for _ in range(_LOOKS):
        drawn = _generators(str(x.device))
        layers = _watched(module, x)
        if layers is None or _generators(str(x.device)) == drawn:
            return layers
    return None


def _simple(module: nn.Module) -> bool:
    """Whether all parameters belong to layers of a chain; if not, the module's code need not be run."""
    return all(type(part) in LAYERS for part in module.modules() if part._parameters)


def _altered(module: nn.Module) -> bool:
    """Whether a call of the module does more than its classes say."""
    return bool(hooked(module)) or any(
        "forward" in part.__dict__
        or part._forward_hooks
        or part._forward_pre_hooks
        or part._backward_hooks
        or part._backward_pre_hooks
        for part in module.modules()
    )


def _watched(module: nn.Module, x: Tensor) -> list[nn.Module] | None:
    """The layers that a forward pass goes through; None where it does anything else with the data."""
    seen: list[tuple[Any, nn.Module | None, Any]] = []  # what a layer was given, the layer, what came out
    inside: list[Any] = []

    class Watched(Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Callable[..., Any], types: Iterable[Any], args: Any = (), kwargs: Any = None
        ) -> Any:
            found = super().__torch_function__(func, types, args, kwargs)
            if inside:
                return found
            if func in _SHAPE:
                return _guarded(found, args[1:] + tuple((kwargs or {}).values()))
            inside.append(func)  # what follows are our own questions
            seen.append((args[0], _as_layer(func, args, kwargs or {}, found), found))
            inside.pop()
            return found

    def enter(layer: nn.Module, _args: Any) -> None:
        inside.append(layer)

    def leave(layer: nn.Module, args: Any, output: Any) -> None:
        inside.pop()
        if not inside:
            seen.append((args[0], layer if len(args) == 1 else None, output))

    layers = [part for part in module.modules() if type(part) in LAYERS]
    hooks = [layer.register_forward_pre_hook(enter) for layer in layers]
    hooks += [layer.register_forward_hook(leave) for layer in layers]
    try:
        current: Any = x.as_subclass(Watched)
        output = module(current)
    finally:
        for hook in hooks:
            hook.remove()
    found = []
    for given, layer, came in seen:
        if given is not current or layer is None:
            return None
        found.append(layer)
        current = came
    return found if output is current else None


class _Rows(int):
    """How many rows a batch has. A model may hand it on; one that goes by it treats batches differently."""

    def _looked_at(self, *_: Any) -> Any:
        raise TypeError("the model looks at how many rows there are")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __float__ = _looked_at
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _looked_at
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _looked_at
    __hash__ = int.__hash__


def _guarded(shape: Any, asked: tuple[Any, ...]) -> Any:
    """A shape, or what was asked of it, in which the number of rows can only be handed on."""
    if isinstance(shape, tuple):
        return (_Rows(shape[0]), *shape[1:])
    return _Rows(shape) if asked and asked[0] <= 0 else shape


def _as_layer(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], found: Any
) -> nn.Module | None:
    """The layer that does what a function did."""
    x = args[0].shape
    flat = isinstance(found, Tensor) and found.shape == (x[0], math.prod(x[1:]))
    if func in _RESHAPES:
        to = args[1] if len(args) > 1 and isinstance(args[1], tuple | list) else args[1:]
        return nn.Flatten() if flat and any(type(one) is int and one == -1 for one in to) else None
    kind = _FUNCTIONS.get(func)
    if kind is nn.Flatten:
        return nn.Flatten() if flat else None
    return None if kind is None else kind(*args[1:], **{k: v for k, v in kwargs.items() if k != "inplace"})


def _attributes(module: nn.Module) -> list[tuple[int, str, int]]:
    """The state of the module's parts, by identity; hooks come and go, and layers' rates are put back."""
    return [
        (id(part), name, id(value))
        for part in module.modules()
        for name, value in part.__dict__.items()
        if name != "training" and (name not in ("_built_dropout", "p") or type(part) is not nn.Dropout)
    ]


def _generators(device: str) -> tuple[Any, ...]:
    """The states of all global generators that a model's code may draw from."""
    state: Any = np.random.get_state()  # noqa: NPY002
    torchs = (one.numpy().tobytes() for one in generator_states(device))
    return random.getstate(), state[1].tobytes(), state[2], *torchs


def loss_gradient(output: Tensor, target: Tensor) -> Tensor:
    """The gradient of the sum of the samples' losses in the model's output.

    These are cross-entropy for classes and the squared error for numbers, as in `fedhpo.engine.loss`.

    >>> loss_gradient(torch.zeros(1, 2), torch.tensor([1]))
    tensor([[ 0.5000, -0.5000]])
    """
    if target.is_floating_point():
        error = output - target.view_as(output)
        return error.mul_(2.0 / output.shape[-1])
    found = torch.softmax(output, -1)
    minus_one = found.new_full((1,), -1.0)
    return found.scatter_add_(-1, target.unsqueeze(-1), minus_one.expand(*target.shape, 1))
