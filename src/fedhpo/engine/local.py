"""Local training at one client, in a lean loop.

No optimiser objects, no `DataLoader`, no copy of the model: forward, backward, one fused step.
The result equals `torch.optim` over a shuffled `DataLoader` (McMahan et al., 2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedhpo.data.container import IGNORE
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.loss import LossFunction, mean_loss
from fedhpo.engine.outputs import Collate, collated, forward
from fedhpo.engine.steps import Steps


def train(
    model: FlatModel,
    x: Tensor,
    y: Tensor,
    hyperparameters: Local,
    rng: np.random.Generator | None,
    loss: LossFunction | None = None,
    channels_last: bool = False,
    collate: Collate | None = None,
) -> None:
    """Train the module in place; without a generator the rows are in random order already."""
    h = hyperparameters
    set_dropout(model.module, h.dropout)
    model.module.train()
    step = Steps(model.trainable, h)
    for xs, ys in _epochs(x, y, h, rng):
        if channels_last:
            xs = xs.contiguous(memory_format=torch.channels_last)
        if h.accumulate > 1:
            _accumulated(model.module, xs, ys, h, step, loss, collate)
            continue
        for batch, targets in zip(xs.split(h.batch_size), ys.split(h.batch_size), strict=True):
            if collate is not None:
                batch, targets = collated(collate, batch, targets)
            step.backward(mean_loss(forward(model.module, batch), targets, loss, h.label_smoothing))
            step.take()


def _epochs(
    x: Tensor, y: Tensor, h: Local, rng: np.random.Generator | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The rows of each epoch in their order, of the last one only as many as its steps take.

    One gather per epoch; batches are then views of it.
    """
    if h.max_steps is None:
        for _ in range(h.epochs):
            yield shuffled(x, y, rng)
        return
    left = h.samples(len(x))
    while left > 0:
        xs, ys = shuffled(x, y, rng)
        yield xs[:left], ys[:left]
        left -= len(xs)


def _accumulated(
    module: nn.Module,
    xs: Tensor,
    ys: Tensor,
    h: Local,
    step: Steps,
    loss: LossFunction | None,
    collate: Collate | None,
) -> None:
    """Steps whose gradient is that of several batches as if they were one."""
    size = h.batch_size * h.accumulate
    for rows, targets in zip(xs.split(size), ys.split(size), strict=True):
        batches = [
            collated(collate, *one)
            for one in zip(rows.split(h.batch_size), targets.split(h.batch_size), strict=True)
        ]
        counted = sum(_counted(own, loss) for _, own in batches)
        for batch, own in batches:
            share = _counted(own, loss) / counted if counted else 1.0
            step.backward(mean_loss(forward(module, batch), own, loss, h.label_smoothing) * share)
        step.take()


def _counted(targets: Tensor, loss: LossFunction | None) -> int:
    """Over how many losses the mean of a batch is taken."""
    if loss is None and targets.ndim == 2 and not targets.is_floating_point():
        return int((targets != IGNORE).sum())
    return len(targets)


def shuffled(x: Tensor, y: Tensor, rng: np.random.Generator | None) -> tuple[Tensor, Tensor]:
    """The rows in random order; as they are without a generator."""
    if rng is None:
        return x, y
    order = torch.from_numpy(rng.permutation(len(x))).to(x.device)
    return x.index_select(0, order), y.index_select(0, order)


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
