"""Which models are chains of simple layers: their gradients can be written down without autograd.

A model is read by tracing its forward pass, so that `F.relu(self.first(x))` counts like `nn.Sequential`. What
cannot be read with certainty is no chain: branches, tied or frozen parameters, hooks, code that changes the
module or draws random numbers while it runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from fedhpo.engine.flat import FlatModel
from fedhpo.engine.tensors import hooked
from fedhpo.models.input import Input

#: Layers that a chain may have; others with their names are not these.
LAYERS = (nn.Linear, nn.ReLU, nn.Tanh, nn.GELU, nn.Dropout, nn.Flatten, nn.LayerNorm, nn.Identity, Input)
_FUNCTIONS: Mapping[Callable[..., Any], type[nn.Module]] = {
    torch.relu: nn.ReLU,
    F.relu: nn.ReLU,
    torch.tanh: nn.Tanh,
    F.tanh: nn.Tanh,
    F.gelu: nn.GELU,
    torch.flatten: nn.Flatten,
}
_METHODS = {"relu": nn.ReLU, "tanh": nn.Tanh, "flatten": nn.Flatten}


class _Tracer(fx.Tracer):
    """Goes into everything but torch's own layers and our `Input`."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) is Input or super().is_leaf_module(m, module_qualified_name)


def chain_of(model: FlatModel) -> list[nn.Module] | None:
    """The model's layers in their order, or None where it is no chain.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    >>> [type(layer).__name__ for layer in chain_of(FlatModel(net))]
    ['Flatten', 'Linear', 'ReLU', 'Linear']
    >>> chain_of(FlatModel(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))) is None
    True
    """
    module = model.module
    if model.size != model.trainable_size or _altered(module):
        return None
    try:
        layers = _traced(module)
    except Exception:  # code that cannot be traced, such as a branch that looks at the data
        return None
    if layers is None:
        return None
    own = [p for layer in layers for p in layer.parameters()]
    same = len(own) == len(model.parameters) and {id(p) for p in own} == {id(p) for p in model.parameters}
    return layers if same else None


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


def _traced(module: nn.Module) -> list[nn.Module] | None:
    module.train()
    before, drawn = _attributes(module), _generators()
    nodes = list(_Tracer().trace(module).nodes)
    if _attributes(module) != before or _generators() != drawn:
        return None
    first, *calls, last = nodes
    if first.op != "placeholder" or last.op != "output" or last.args != (nodes[-2],):
        return None
    layers = []
    for previous, node in zip(nodes, calls, strict=False):
        layer = _layer(module, node) if node.args[:1] == (previous,) else None
        if layer is None:
            return None
        layers.append(layer)
    return layers


def _layer(module: nn.Module, node: fx.Node) -> nn.Module | None:
    """The layer that a node calls, or the one that does the same as its function."""
    if node.op == "call_module":
        layer = module.get_submodule(str(node.target))
        if len(node.args) != 1 or node.kwargs:
            return None
    else:
        known: Mapping[Any, type[nn.Module]] = {"call_function": _FUNCTIONS, "call_method": _METHODS}.get(  # type: ignore[assignment]
            node.op, {}
        )
        kind = known.get(node.target)
        if kind is None:
            return None
        layer = kind(*node.args[1:], **node.kwargs)
        if kind is nn.Flatten and not node.args[1:] and "start_dim" not in node.kwargs:
            return None  # the function begins with the batch
    if isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) != (1, -1):
        return None
    return layer if type(layer) in LAYERS else None


def _attributes(module: nn.Module) -> list[tuple[int, str, int]]:
    return [(id(part), name, id(value)) for part in module.modules() for name, value in part.__dict__.items()]


def _generators() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), state[1].tobytes(), state[2], torch.random.get_rng_state().numpy().tobytes()


def loss_gradient(output: Tensor, target: Tensor, weight: Tensor | float) -> Tensor:
    """The gradient of the samples' losses, each times its weight, in the model's output.

    These are cross-entropy for classes and the squared error for numbers, as in `fedhpo.engine.loss`.

    >>> loss_gradient(torch.zeros(1, 2), torch.tensor([1]), 1.0)
    tensor([[ 0.5000, -0.5000]])
    """
    if target.is_floating_point():
        error = output - target.view_as(output)
        return error.mul_(2.0 / output.shape[-1]).mul_(weight)
    found = torch.softmax(output, -1)
    return found.scatter_add_(-1, target.unsqueeze(-1), _minus_one(target)).mul_(weight)


def _minus_one(target: Tensor) -> Tensor:
    return torch.full((1,), -1.0, device=target.device).expand(*target.shape, 1)
