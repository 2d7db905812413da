"""Local training of a chain of simple layers, with forward and backward pass written by hand.

No graph is built and no gradient is kept: what a batch says of a layer's weights goes straight into the
momentum, or into the weights where there is none. All weights lie in one vector, so that the rest of a step
is one call (see `Momentum`). The result is that of `fedhpo.engine.local.train` but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedhpo.engine.chain import chain_of, loss_gradient
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import dropout_layers, set_dropout, set_rates, shuffled, train
from fedhpo.engine.loss import LossFunction

_aten = torch.ops.aten
#: How far the weights may be from those of autograd after two steps, relative to how far they moved.
_TOLERANCE = 1e-4
#: The least number that velocity and weights are kept divided by.
_LEAST_SCALE = 1e-4
#: Numbers that a client's labels may take as rows of zeros and a one: that saves calls in every step.
_MOST_HOT = 1 << 22


class _Layer:
    """A layer without weights; where there are some, they are `scale` times what is kept."""

    def forward(self, x: Tensor, scale: float) -> Tensor:
        """The output, for a batch in training."""
        raise NotImplementedError

    def backward(self, gradient: Tensor, scale: float) -> Tensor:
        """The gradient in the input, given that in the output."""
        raise NotImplementedError


class _Learning(_Layer):
    """A layer with weights: `learn` puts their gradients into the velocity or the weights, as `aim` said.

    A tensor there becomes itself times `keep` plus its gradient times `step`.
    """

    def __init__(self, own: list[Tensor | None], velocity: Callable[[Tensor], Tensor]) -> None:
        self._own = own
        self._velocities = [None if part is None else velocity(part) for part in own]

    def aim(self, at_velocity: bool) -> None:
        self._into = self._velocities if at_velocity else self._own

    def learn(self, gradient: Tensor, keep: float, step: float) -> None:
        raise NotImplementedError


class _Linear(_Learning):
    def __init__(self, weight: Tensor, bias: Tensor | None, velocity: Callable[[Tensor], Tensor]) -> None:
        super().__init__([weight, bias], velocity)
        self._weight, self._transposed, self._bias = weight, weight.t(), bias
        self._ones, self._none = weight.new_ones(0), weight.new_zeros(1)

    def forward(self, x: Tensor, scale: float) -> Tensor:
        self._x = x
        if self._bias is None:
            return torch.addmm(self._none, x, self._transposed, beta=0, alpha=scale)
        return torch.addmm(self._bias, x, self._transposed, beta=scale, alpha=scale)

    def backward(self, gradient: Tensor, scale: float) -> Tensor:
        return torch.addmm(self._none, gradient, self._weight, beta=0, alpha=scale)

    def learn(self, gradient: Tensor, keep: float, step: float) -> None:
        weight, bias = self._into
        assert weight is not None
        transposed = gradient.t()
        weight.addmm_(transposed, self._x, beta=keep, alpha=step)
        if bias is not None:  # the sum over the batch, as a product: one call instead of three
            if self._ones.shape[0] != gradient.shape[0]:
                self._ones = gradient.new_ones(gradient.shape[0])
            bias.addmv_(transposed, self._ones, beta=keep, alpha=step)


class _LayerNorm(_Learning):
    def __init__(
        self, layer: nn.LayerNorm, own: list[Tensor | None], velocity: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__(own, velocity)
        self._shape, self._eps = list(layer.normalized_shape), layer.eps

    def forward(self, x: Tensor, scale: float) -> Tensor:
        found, *self._moments = torch.native_layer_norm(x, self._shape, self._own[0], self._own[1], self._eps)
        self._x = x
        return self._scaled(found, scale)

    def backward(self, gradient: Tensor, scale: float) -> Tensor:
        return self._scaled(self._gradients(gradient, [True, False, False])[0], scale)

    def _scaled(self, found: Tensor, scale: float) -> Tensor:
        return found if scale == 1.0 or self._own[0] is None else found.mul_(scale)

    def learn(self, gradient: Tensor, keep: float, step: float) -> None:
        found = self._gradients(gradient, [False, *(part is not None for part in self._own)])
        for into, part in zip(self._into, found[1:], strict=True):
            if into is not None:
                into.mul_(keep).add_(part, alpha=step)

    def _gradients(self, gradient: Tensor, wanted: list[bool]) -> Any:
        return _aten.native_layer_norm_backward(
            gradient, self._x, self._shape, *self._moments, *self._own, wanted
        )


class _ReLU(_Layer):
    def forward(self, x: Tensor, scale: float) -> Tensor:
        self._y = torch.relu(x)
        return self._y

    def backward(self, gradient: Tensor, scale: float) -> Tensor:
        found: Tensor = _aten.threshold_backward.default(gradient, self._y, 0)
        return found


class _Tanh(_Layer):
    def forward(self, x: Tensor, scale: float) -> Tensor:
        self._y = torch.tanh(x)
        return self._y

    def backward(self, gradient: Tensor, scale: float) -> Tensor:
        found: Tensor = _aten.tanh_backward.default(gradient, self._y)
        return found


class _GELU(_Layer):
    def __init__(self, layer: nn.GELU) -> None:
        self._approximate = layer.approximate

    def forward(self, x: Tensor, scale: float) -> Tensor:
        self._x = x
        return nn.functional.gelu(x, approximate=self._approximate)

    def backward(self, gradient: Tensor, scale: float) -> Tensor:
        found: Tensor = _aten.gelu_backward(gradient, self._x, approximate=self._approximate)
        return found


class _Dropout(_Layer):
    """Draws as PyTorch does: the same seed drops the same."""

    def __init__(self, layer: nn.Dropout) -> None:
        self._layer = layer
        self._mask: Tensor | None = None

    def forward(self, x: Tensor, scale: float) -> Tensor:
        rate = self._layer.p
        self._mask = torch.dropout(torch.ones_like(x), rate, train=True) if rate else None
        return x if self._mask is None else x * self._mask

    def backward(self, gradient: Tensor, scale: float) -> Tensor:
        return gradient if self._mask is None else gradient * self._mask


class _Flatten(_Layer):
    def forward(self, x: Tensor, scale: float) -> Tensor:
        self._shape = x.shape
        return x.flatten(1)

    def backward(self, gradient: Tensor, scale: float) -> Tensor:
        return gradient.view(self._shape)


class ByHand:
    """A model that is a chain, trained without autograd. Its parameters move into one vector."""

    def __init__(self, model: FlatModel, layers: list[nn.Module]) -> None:
        self._weights = model.unite()
        self._velocity = torch.zeros_like(self._weights)
        self._layers = [made for layer in layers if (made := self._made(layer)) is not None]
        self._learning = [layer for layer in self._layers if isinstance(layer, _Learning)]
        self._dropouts = dropout_layers(model.module)
        self._width = next(layer.out_features for layer in reversed(layers) if isinstance(layer, nn.Linear))
        first = self._layers.index(self._learning[0])
        #: From the last layer back to the first that learns, each as a layer that learns, or None.
        self._backwards = [
            (layer, layer if isinstance(layer, _Learning) else None)
            for layer in reversed(self._layers[first + 1 :])
        ]

    def _made(self, layer: nn.Module) -> _Layer | None:
        match layer:
            case nn.Linear():
                return _Linear(layer.weight.data, _data(layer.bias), self._velocity_of)
            case nn.LayerNorm():
                return _LayerNorm(layer, [_data(layer.weight), _data(layer.bias)], self._velocity_of)
            case nn.ReLU():
                return _ReLU()
            case nn.Tanh():
                return _Tanh()
            case nn.GELU():
                return _GELU(layer)
            case nn.Dropout():
                return _Dropout(layer)
            case nn.Flatten():
                return _Flatten()
        return None  # it passes its input on

    def _velocity_of(self, part: Tensor) -> Tensor:
        begin = part.storage_offset() - self._weights.storage_offset()
        return self._velocity[begin : begin + part.numel()].view(part.shape)

    def train(self, x: Tensor, y: Tensor, h: Local, rng: np.random.Generator | None) -> None:
        """Train the module in place, as `fedhpo.engine.local.train` does."""
        set_rates(self._dropouts, h.dropout)
        anchor = self._weights.clone() if h.prox else None
        momentum = Momentum(self._weights, self._velocity, anchor, h) if h.momentum else None
        for layer in self._learning:
            layer.aim(at_velocity=momentum is not None)
        if not y.is_floating_point() and len(y) * self._width <= _MOST_HOT:
            y = x.new_zeros(len(y), self._width).scatter_(1, y.unsqueeze(1), 1.0)
            self._gradient = _hot_gradient
        else:
            self._gradient = loss_gradient
        for _ in range(h.epochs):
            xs, ys = shuffled(x, y, rng)
            for batch, targets in zip(xs.split(h.batch_size), ys.split(h.batch_size), strict=True):
                if momentum is None:
                    self._plain_step(batch, targets, h, anchor)
                else:
                    self._pass(batch, targets, 1.0, momentum.share(), momentum.weights_scale)
                    momentum.step()
        if momentum is not None:
            momentum.end()

    def _plain_step(self, x: Tensor, y: Tensor, h: Local, anchor: Tensor | None) -> None:
        self._pass(x, y, 1.0 - h.lr * (h.weight_decay + h.prox), -h.lr)
        if anchor is not None:
            self._weights.add_(anchor, alpha=h.lr * h.prox)

    def _pass(self, x: Tensor, y: Tensor, keep: float, step: float, scale: float = 1.0) -> None:
        """Forward and backward; layers learn by `step` times the gradient of the mean loss."""
        for layer in self._layers:
            x = layer.forward(x, scale)
        gradient = self._gradient(x, y)  # of the sum: the mean's divisor goes into the step
        step /= y.shape[0]
        for layer, learning in self._backwards:
            below = layer.backward(gradient, scale)
            if learning is not None:  # after `backward`, which needs the weights as they were
                learning.learn(gradient, keep, step)
            gradient = below
        self._learning[0].learn(gradient, keep, step)


class Momentum:
    """Steps of SGD with momentum and weight decay that walk through weights and velocity only once.

    With gradients `g`, a step is `v = momentum v + g + decay w`, then `w = w - lr v`. Neither the
    multiplication of `v` nor the decay is done as such. For the right number `c`, which solves a quadratic
    equation, `s = v + c w` moves by `s = k momentum s + k g` with `k = 1 - c lr`, and `w = (w - lr s) / k`.
    Both `s` and `w` are kept divided by what their factors come to. Where `c` would be no real number (a
    strong decay under a momentum close to 1) it is 0, and the decay is added in each step.
    """

    def __init__(self, weights: Tensor, velocity: Tensor, anchor: Tensor | None, h: Local) -> None:
        self._weights, self._velocity, self._anchor, self._h = weights, velocity, anchor, h
        self._pull = h.weight_decay + h.prox
        slant = slanted(h.momentum, h.lr, self._pull) if self._pull else None
        if slant is None:
            slant = 0.0
            velocity.zero_()
        else:
            self._pull = 0.0
            torch.mul(weights, slant, out=velocity)
        self._k = 1.0 - slant * h.lr
        self._scale = 1.0
        #: What the kept weights are to be multiplied by.
        self.weights_scale = 1.0

    def share(self) -> float:
        """What a gradient is to be multiplied by as it is added to the velocity; a step has begun."""
        self._scale *= self._k * self._h.momentum
        if self._scale < _LEAST_SCALE:
            self._velocity.mul_(self._scale)
            self._scale = 1.0
        return self._k / self._scale

    def step(self) -> None:
        """Move the weights, once the gradients are in the velocity."""
        if self._pull:
            self._velocity.add_(self._weights, alpha=self._pull / self._scale)
        if self._anchor is not None:
            self._velocity.add_(self._anchor, alpha=-self._h.prox * self._k / self._scale)
        self._weights.add_(self._velocity, alpha=-self._h.lr * self._scale / self.weights_scale)
        self.weights_scale /= self._k
        if self.weights_scale < _LEAST_SCALE:
            self.end()

    def end(self) -> None:
        """Make the kept weights the weights."""
        if self.weights_scale != 1.0:
            self._weights.mul_(self.weights_scale)
            self.weights_scale = 1.0


def slanted(momentum: float, lr: float, decay: float) -> float | None:
    """The number `c` of `Momentum`, or None where there is no real one.

    >>> c = slanted(0.9, 0.1, 0.001)
    >>> k = 1 - 0.1 * c
    >>> abs(k * 0.001 + c - k * 0.9 * c) < 1e-15
    True
    >>> slanted(0.99, 0.1, 0.1) is None
    True
    """
    b = 1.0 - lr * decay - momentum
    under_root = b * b - 4.0 * momentum * lr * decay
    return None if b <= 0 or under_root < 0 else -2.0 * decay / (b + math.sqrt(under_root))


def _hot_gradient(output: Tensor, target: Tensor) -> Tensor:
    """The gradient of the sum of cross-entropies in the output, for labels as rows of zeros and a one."""
    return torch.softmax(output, -1).sub_(target)


def _data(parameter: nn.Parameter | None) -> Tensor | None:
    return None if parameter is None else parameter.data


def by_hand(model: FlatModel, x: Tensor, y: Tensor, loss: LossFunction | None) -> ByHand | None:
    """How to train this model without autograd, or None. A fixed rule, never a timing: results repeat.

    Chains under our own losses can be; two steps on a few rows must give what autograd gives.
    """
    if (
        loss is not None
        or not isinstance(x, Tensor)
        or (y.ndim > 1 and not y.is_floating_point())
        or not len(x)
    ):
        return None
    layers = chain_of(model, x)
    if layers is None or not any(isinstance(layer, nn.Linear) for layer in layers):
        return None
    start = model.vector()
    h = Local(lr=0.1, momentum=0.5, weight_decay=0.01, batch_size=max(1, len(x) // 2), dropout=0.0)
    try:
        train(model, x, y, h, np.random.default_rng(0))
        wanted = model.vector()
        model.load(start)
        found = ByHand(model, layers)
        found.train(x, y, h, np.random.default_rng(0))
        moved, error = np.abs(wanted - start).max(), np.abs(model.vector() - wanted).max()
    except Exception:  # what fails with autograd too will be told in training
        return None
    finally:
        model.load(start)
        set_dropout(model.module, None)
    return found if error <= _TOLERANCE * moved + 1e-7 else None
