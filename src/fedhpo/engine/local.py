"""Local training at one client: plain SGD in a lean loop.

No optimiser objects, no `DataLoader`, no copy of the model: forward, backward, one fused step.
The result equals `torch.optim.SGD` over a shuffled `DataLoader` (McMahan et al., 2017; with `prox`
the proximal term of FedProx, Li et al., 2020).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.loss import LossFunction, mean_loss


def train(
    model: FlatModel,
    x: Tensor,
    y: Tensor,
    hyperparameters: Local,
    rng: np.random.Generator,
    loss: LossFunction | None = None,
    channels_last: bool = False,
) -> None:
    """Train the module in place."""
    h = hyperparameters
    set_dropout(model.module, h.dropout)
    model.module.train()
    parameters = model.parameters
    anchors = [p.detach().clone() for p in parameters] if h.prox else []
    buffers: list[Tensor] = []
    first = True
    for _ in range(h.epochs):
        # One gather per epoch; batches are then views of it.
        order = torch.from_numpy(rng.permutation(len(x))).to(x.device)
        xs, ys = x[order], y[order]
        if channels_last:
            xs = xs.contiguous(memory_format=torch.channels_last)
        for begin in range(0, len(xs), h.batch_size):
            output = model.module(xs[begin : begin + h.batch_size])
            value = mean_loss(output, ys[begin : begin + h.batch_size], loss)
            gradients = list(torch.autograd.grad(value, parameters, allow_unused=first))
            with torch.no_grad():
                if first:
                    parameters, gradients, anchors = _used(parameters, gradients, anchors)
                    buffers = [torch.empty_like(p) for p in parameters] if h.momentum else []
                if anchors:
                    torch._foreach_add_(gradients, parameters, alpha=h.prox)
                    torch._foreach_add_(gradients, anchors, alpha=-h.prox)
                _sgd_step(parameters, gradients, buffers, h, first)
            first = False


def _used(
    parameters: list[nn.Parameter], gradients: list[Tensor], anchors: list[Tensor]
) -> tuple[list[nn.Parameter], list[Tensor], list[Tensor]]:
    """Leave out parameters that the loss does not depend on, as PyTorch's optimisers do."""
    used = [i for i, gradient in enumerate(gradients) if gradient is not None]
    return (
        [parameters[i] for i in used],
        [gradients[i] for i in used],
        [anchors[i] for i in used] if anchors else [],
    )


def _sgd_step(
    parameters: list[nn.Parameter], gradients: list[Tensor], buffers: list[Tensor], h: Local, first: bool
) -> None:
    torch._fused_sgd_(
        parameters,
        gradients,
        buffers,
        weight_decay=h.weight_decay,
        momentum=h.momentum,
        lr=h.lr,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=first,
    )


def set_dropout(module: nn.Module, rate: float | None) -> None:
    """Give every dropout layer this rate; None puts back the rate it was built with."""
    for part in module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            attribute = "p"
        elif isinstance(part, nn.RNNBase):
            attribute = "dropout"
        else:
            continue
        if not hasattr(part, "_built_dropout"):
            part._built_dropout = getattr(part, attribute)
        setattr(part, attribute, part._built_dropout if rate is None else rate)


def is_random(module: nn.Module) -> bool:
    """Whether the module has layers that draw random numbers in training."""
    return any(
        isinstance(part, nn.modules.dropout._DropoutNd) or (isinstance(part, nn.RNNBase) and part.num_layers > 1)
        for part in module.modules()
    )
