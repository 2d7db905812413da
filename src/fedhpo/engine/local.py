"""Local training at one client: plain SGD in a lean loop.

No optimiser objects, no `DataLoader`, no copy of the model: forward, backward, one fused step.
The result equals `torch.optim.SGD` over a shuffled `DataLoader` (McMahan et al., 2017; with `prox`
the proximal term of FedProx, Li et al., 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward

from fedhpo.core.errors import InputError
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.loss import LossFunction, mean_loss
from fedhpo.engine.tensors import dense


def train(
    model: FlatModel,
    x: Tensor,
    y: Tensor,
    hyperparameters: Local,
    rng: np.random.Generator | None,
    loss: LossFunction | None = None,
    channels_last: bool = False,
) -> None:
    """Train the module in place; without a generator the rows are in random order already."""
    h = hyperparameters
    set_dropout(model.module, h.dropout)
    model.module.train()
    step = _Step(model.trainable, h)
    for _ in range(h.epochs):
        # One gather per epoch; batches are then views of it.
        xs, ys = shuffled(x, y, rng)
        if channels_last:
            xs = xs.contiguous(memory_format=torch.channels_last)
        for batch, targets in zip(xs.split(h.batch_size), ys.split(h.batch_size), strict=True):
            step.backward(mean_loss(model.module(batch), targets, loss))
            step.take()


def shuffled(x: Tensor, y: Tensor, rng: np.random.Generator | None) -> tuple[Tensor, Tensor]:
    """The rows in random order; as they are without a generator."""
    if rng is None:
        return x, y
    order = torch.from_numpy(rng.permutation(len(x))).to(x.device)
    return x.index_select(0, order), y.index_select(0, order)


class _Step:
    """One step of SGD after another, over all parameters."""

    def __init__(self, named: Mapping[str, Tensor], h: Local) -> None:
        self._names, self._parameters, self._h = list(named), list(named.values()), h
        self._anchors = [p.detach().clone() for p in self._parameters] if h.prox else []
        self._velocities = [torch.zeros_like(p.detach()) for p in self._parameters] if h.momentum else []
        # The fused kernel on a CPU walks through memory and knows nothing of strides: parameter, gradient
        # and velocity must lie there alike and without gaps. Gradients do so thanks to `backward`,
        # velocities where the parameter has no gaps.
        self._strides = [p.stride() for p in self._parameters] if all(map(dense, self._parameters)) else None
        self._forget()

    def _forget(self) -> None:
        for p in self._parameters:
            p.grad = None

    def backward(self, loss: Tensor) -> None:
        """What `loss.backward()` does, without most of its checks: a tenth of a small model's step.

        Gradients go to `.grad`. Unlike `torch.autograd.grad` PyTorch then copies a gradient that has
        other strides than its parameter, or that is also the gradient of another parameter.
        """
        if not loss.is_floating_point():
            raise InputError(f"the loss must be a real number, not {loss.dtype}")
        one = torch.ones((), dtype=loss.dtype, device=loss.device)
        _engine_run_backward((loss,), (one,), False, False, (), allow_unreachable=True, accumulate_grad=True)

    def take(self) -> None:
        """One step; parameters that this batch's loss does not depend on stay, as in PyTorch's optimisers."""
        parameters, anchors, velocities = self._parameters, self._anchors, self._velocities
        gradients = [p.grad for p in parameters]
        found = [g for g in gradients if g is not None]
        if len(found) < len(gradients):
            used = [i for i, g in enumerate(gradients) if g is not None]
            parameters, anchors, velocities = (
                [part[i] for i in used] if part else [] for part in (parameters, anchors, velocities)
            )
        if found:
            try:
                with torch.no_grad():
                    self._move(parameters, found, anchors, velocities)
            except NotImplementedError:  # the fused kernel has no sparse form
                self._refuse_sparse()
                raise
        self._forget()

    def _move(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        anchors: list[Tensor],
        velocities: list[Tensor],
    ) -> None:
        h = self._h
        if anchors:
            self._refuse_sparse()
            # Not in place: two gradients may be views of the same memory.
            gradients = list(torch._foreach_add(gradients, parameters, alpha=h.prox))
            torch._foreach_add_(gradients, anchors, alpha=-h.prox)
        # The strides are looked at in every step: a model's own code may put another tensor in a
        # parameter's place (`p.data = ...`).
        if self._strides is None or [p.stride() for p in self._parameters] != self._strides:
            self._refuse_sparse()
            _plain_step(parameters, gradients, velocities, h)
            return
        torch._fused_sgd_(
            parameters,
            gradients,
            velocities,
            weight_decay=h.weight_decay,
            momentum=h.momentum,
            lr=h.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,  # velocities begin at zero
        )

    def _refuse_sparse(self) -> None:
        for name, p in zip(self._names, self._parameters, strict=True):
            if p.grad is not None and p.grad.layout != torch.strided:
                raise InputError(
                    f"the gradient of the model's {name} is sparse; fedhpo trains with dense gradients: "
                    "build the layer with sparse=False"
                )


def _plain_step(
    parameters: list[Tensor], gradients: list[Tensor], velocities: list[Tensor], h: Local
) -> None:
    """The fused kernel's step, tensor by tensor, for any layout in memory."""
    for i, (p, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        direction = gradient.add(p, alpha=h.weight_decay) if h.weight_decay else gradient
        if velocities:
            direction = velocities[i].mul_(h.momentum).add_(direction)
        p.add_(direction, alpha=-h.lr)


#: A layer that drops out, and the attribute that holds its rate.
DropoutLayers = Sequence[tuple[nn.Module, str]]


def dropout_layers(module: nn.Module) -> DropoutLayers:
    """The layers that drop out in training, and the attribute that holds their rate."""
    return [
        (part, "p" if isinstance(part, nn.modules.dropout._DropoutNd) else "dropout")
        for part in module.modules()
        if isinstance(part, nn.modules.dropout._DropoutNd | nn.MultiheadAttention)
        or (isinstance(part, nn.RNNBase) and part.num_layers > 1)
    ]


def set_dropout(module: nn.Module, rate: float | None) -> None:
    """Give every dropout layer this rate; None puts back the rate it was built with."""
    set_rates(dropout_layers(module), rate)


def set_rates(layers: DropoutLayers, rate: float | None) -> None:
    """The same for layers that were looked for before."""
    for part, attribute in layers:
        if not hasattr(part, "_built_dropout"):
            part._built_dropout = getattr(part, attribute)
        setattr(part, attribute, part._built_dropout if rate is None else rate)


def drops_out(layers: DropoutLayers, rate: float | None) -> bool:
    """Whether training with this dropout rate (None: as built) draws random numbers."""
    return any(
        (getattr(part, "_built_dropout", getattr(part, attribute)) if rate is None else rate) > 0
        for part, attribute in layers
    )
