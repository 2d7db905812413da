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

    def gradient(self, weights: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """Of the sum of the samples' losses, each times its weight; a row for each model."""
        inputs = []
        for layer, places in zip(self._layers, self._places, strict=True):
            inputs.append(x)
            x = _forward(layer, x, weights, places)
        gradient = loss_gradient(x, y).mul_(weight.unsqueeze(-1))
        found = torch.empty_like(weights)
        outputs = [*inputs[1:], x]
        for i in range(len(self._layers) - 1, self._first - 1, -1):
            layer, places = self._layers[i], self._places[i]
            if not isinstance(layer, nn.Linear):
                gradient = _backward(layer, gradient, inputs[i], outputs[i])
                continue
            part = found.narrow(1, places[0], layer.weight.numel())
            part.view(len(found), *layer.weight.shape).copy_(torch.bmm(gradient.transpose(1, 2), inputs[i]))
            if len(places) == 2:
                torch.sum(gradient, 1, out=found.narrow(1, places[1], len(layer.bias)))
            if i > self._first:
                gradient = torch.bmm(gradient, _weight(layer, weights, places))
        return found


def _weight(layer: nn.Linear, weights: Tensor, places: list[int]) -> Tensor:
    return weights.narrow(1, places[0], layer.weight.numel()).view(len(weights), *layer.weight.shape)


def _forward(layer: nn.Module, x: Tensor, weights: Tensor, places: list[int]) -> Tensor:
    match layer:
        case nn.Linear():
            transposed = _weight(layer, weights, places).transpose(1, 2)
            if len(places) == 1:  # no bias
                return torch.bmm(x, transposed)
            bias = weights.narrow(1, places[1], len(layer.bias)).unsqueeze(1)
            return torch.baddbmm(bias, x, transposed)
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
