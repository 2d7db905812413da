"""Local training at one client: plain SGD in a lean loop.

No optimiser objects, no `DataLoader`, no copy of the model: forward, backward, one fused step.
The result equals `torch.optim.SGD` over a shuffled `DataLoader` (McMahan et al., 2017; with `prox`
the proximal term of FedProx, Li et al., 2020).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward

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
    parameters = tuple(model.parameters)
    values = [p.detach() for p in parameters]  # the same memory, outside of autograd
    anchors = [value.clone() for value in values] if h.prox else []
    velocities = [torch.zeros_like(value) for value in values] if h.momentum else []
    for _ in range(h.epochs):
        # One gather per epoch; batches are then views of it.
        order = torch.from_numpy(rng.permutation(len(x))).to(x.device)
        xs, ys = x[order], y[order]
        if channels_last:
            xs = xs.contiguous(memory_format=torch.channels_last)
        for batch, targets in zip(xs.split(h.batch_size), ys.split(h.batch_size), strict=True):
            gradients = _gradients(mean_loss(model.module(batch), targets, loss), parameters)
            _step(values, gradients, anchors, velocities, h)


def _gradients(value: Tensor, parameters: tuple[Tensor, ...]) -> Sequence[Tensor | None]:
    """What `torch.autograd.grad` gives, without its checks: a sixth of a small model's step."""
    one = torch.ones((), dtype=value.dtype, device=value.device)
    found: Sequence[Tensor | None] = _engine_run_backward(
        (value,), (one,), False, False, parameters, allow_unreachable=True, accumulate_grad=False
    )
    return found


def _step(
    parameters: list[Tensor],
    gradients: Sequence[Tensor | None],
    anchors: list[Tensor],
    velocities: list[Tensor],
    h: Local,
) -> None:
    """One step; parameters that this batch's loss does not depend on stay, as in PyTorch's optimisers."""
    found = [g for g in gradients if g is not None]
    if len(found) < len(gradients):
        used = [i for i, g in enumerate(gradients) if g is not None]
        parameters, anchors, velocities = (
            [part[i] for i in used] if part else [] for part in (parameters, anchors, velocities)
        )
    if not found:
        return
    if anchors:
        torch._foreach_add_(found, parameters, alpha=h.prox)
        torch._foreach_add_(found, anchors, alpha=-h.prox)
    torch._fused_sgd_(
        parameters,
        found,
        velocities,
        weight_decay=h.weight_decay,
        momentum=h.momentum,
        lr=h.lr,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,  # velocities begin at zero
    )


def dropout_layers(module: nn.Module) -> list[tuple[nn.Module, str]]:
    """The layers that drop out in training, and the attribute that holds their rate."""
    return [
        (part, "p" if isinstance(part, nn.modules.dropout._DropoutNd) else "dropout")
        for part in module.modules()
        if isinstance(part, nn.modules.dropout._DropoutNd | nn.MultiheadAttention)
        or (isinstance(part, nn.RNNBase) and part.num_layers > 1)
    ]


def set_dropout(module: nn.Module, rate: float | None) -> None:
    """Give every dropout layer this rate; None puts back the rate it was built with."""
    for part, attribute in dropout_layers(module):
        if not hasattr(part, "_built_dropout"):
            part._built_dropout = getattr(part, attribute)
        setattr(part, attribute, part._built_dropout if rate is None else rate)


def drops_out(module: nn.Module, rate: float | None) -> bool:
    """Whether training with this dropout rate (None: as built) draws random numbers."""
    return any(
        (getattr(part, "_built_dropout", getattr(part, attribute)) if rate is None else rate) > 0
        for part, attribute in dropout_layers(module)
    )
