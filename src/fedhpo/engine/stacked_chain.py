"""The gradients of a stack of chains, by products of whole stacks of matrices instead of `vmap`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedhpo.engine.chain import chain_of, loss_gradient
from fedhpo.engine.flat import FlatModel

_aten = torch.ops.aten


class StackedChain:
    """Gradients of many models of the same shape at once; a row of `weights` is one model."""

    def __init__(self, model: FlatModel, layers: list[nn.Module]) -> None:
        places, offset = {}, 0
        for parameter in model.parameters:
            places[id(parameter)] = offset
            offset += parameter.numel()
        self._layers = [layer for layer in layers if not isinstance(layer, nn.Dropout)]  # its rate is 0 here
        self._places = [[places[id(p)] for p in layer.parameters()] for layer in self._layers]
        self._first = next(i for i, layer in enumerate(self._layers) if isinstance(layer, nn.Linear))

    def on(self, weights: Tensor) -> StackedGradients:
        """For these models."""
        return StackedGradients(self._layers, self._places, self._first, weights)


class StackedGradients:
    """Gradients at the weights of a stack, as they are at each call; where each layer's lie is found once."""

    def __init__(self, layers: list[nn.Module], places: list[list[int]], first: int, weights: Tensor) -> None:
        self._found = torch.empty_like(weights)
        self._first = first
        self._parts = [
            (layer, _views(layer, weights, own), _views(layer, self._found, own))
            for layer, own in zip(layers, places, strict=True)
        ]

    def gradient(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """Of the sum of the samples' losses, each times its weight; a row for each model.

        The next call writes over it.
        """
        inputs = [x]
        for layer, own, _ in self._parts:
            inputs.append(_forward(layer, inputs[-1], own))
        gradient = loss_gradient(inputs[-1], y).mul_(weight.unsqueeze(-1))
        for i in range(len(self._parts) - 1, self._first - 1, -1):
            layer, own, found = self._parts[i]
            if not own:
                gradient = _backward(layer, gradient, inputs[i], inputs[i + 1])
                continue
            found[0].copy_(torch.bmm(gradient.transpose(1, 2), inputs[i]))
            if len(found) == 2:
                torch.sum(gradient, 1, keepdim=True, out=found[1])
            if i > self._first:
                gradient = torch.bmm(gradient, own[0])
        return self._found


def _views(layer: nn.Module, weights: Tensor, places: list[int]) -> list[Tensor]:
    """Where the weight of a linear layer and its bias, if it has one, lie in a stack; else nothing."""
    if not isinstance(layer, nn.Linear):
        return []
    found = [weights.narrow(1, places[0], layer.weight.numel()).view(len(weights), *layer.weight.shape)]
    if len(places) == 2:
        found.append(weights.narrow(1, places[1], len(layer.bias)).unsqueeze(1))
    return found


def _forward(layer: nn.Module, x: Tensor, own: list[Tensor]) -> Tensor:
    if own:
        transposed = own[0].transpose(1, 2)
        return torch.bmm(x, transposed) if len(own) == 1 else torch.baddbmm(own[1], x, transposed)
    match layer:
        case nn.ReLU():
            return torch.relu(x)
        case nn.Tanh():
            return torch.tanh(x)
        case nn.Flatten():
            return x.flatten(2)
    return x  # it passes its input on


def _backward(layer: nn.Module, gradient: Tensor, x: Tensor, y: Tensor) -> Tensor:
    match layer:
        case nn.ReLU():
            gradient = _aten.threshold_backward(gradient, y, 0)
        case nn.Tanh():
            gradient = _aten.tanh_backward(gradient, y)
        case nn.Flatten():
            gradient = gradient.view(x.shape)
    return gradient


def stacked_chain(model: FlatModel, x: Tensor) -> StackedChain | None:
    """How to get the gradients of a stack of this model without `vmap`, or None."""
    layers = chain_of(model, x)
    if layers is None or any(isinstance(layer, nn.LayerNorm | nn.GELU) for layer in layers):
        return None
    return StackedChain(model, layers) if any(isinstance(layer, nn.Linear) for layer in layers) else None
