"""A model as an executor keeps it, and what it had to find out about the module."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedhpo.core.streams import torch_generator
from fedhpo.engine.by_hand import ByHand, by_hand
from fedhpo.engine.device import generator_states
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.local import DropoutLayers, dropout_layers, set_dropout
from fedhpo.engine.loss import LossFunction, sample_sums
from fedhpo.engine.outputs import Answer, forward
from fedhpo.engine.stacked_chain import StackedChain, stacked_chain
from fedhpo.engine.tensors import alike

#: Rows that a model is tried on.
ROWS = 8


class Built(NamedTuple):
    """A module, and what its executor found out about it."""

    model: FlatModel
    #: Its inputs are laid out channels last.
    channels_last: bool
    #: It draws random numbers itself, outside of dropout layers.
    draws: bool
    #: In scoring, what it says of a sample depends on the others in the batch.
    mixes: bool
    #: Its layers that may drop out.
    dropouts: DropoutLayers
    #: How it is trained without autograd, where it is so.
    by_hand: ByHand | None = None
    #: How stacks of it get their gradients without autograd, where they do.
    stacked: StackedChain | None = None


def look_at(
    model: FlatModel, x: Tensor, y: Tensor, loss: LossFunction | None, own_training: bool = False
) -> Built:
    """Try a model on a few rows."""
    channels_last = to_channels_last(model.module, x)
    hand = None if own_training else by_hand(model, x, y, loss)
    return Built(
        model,
        channels_last,
        draws(model.module, x),
        mixes(model.module, x, y, loss, training=False),
        dropout_layers(model.module),
        hand,
        None if loss else stacked_chain(model, x),
    )


def to_channels_last(module: nn.Module, x: Tensor) -> bool:
    """Lay a convolutional model out channels last, which is faster; not if its own code cannot take that."""
    if x.ndim != 4 or not any(isinstance(part, nn.Conv2d) for part in module.modules()):
        return False
    module.eval()
    try:
        usual = _output_and_gradients(module, x)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        other = _output_and_gradients(module, x.contiguous(memory_format=torch.channels_last))
        can = all(alike(a, b) for a, b in zip(usual, other, strict=True))
    except Exception:  # such as `view` of what is no longer contiguous
        can = False
    if not can:
        module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return can


def _output_and_gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    with torch_generator():
        torch.manual_seed(0)
        output = forward(module, x)
    trainable = [p for p in module.parameters() if p.requires_grad]
    if not output.requires_grad:
        return [output]
    gradients = torch.autograd.grad(output.square().mean(), trainable, allow_unused=True)
    return [output.detach(), *(g for g in gradients if g is not None)]


def draws(module: nn.Module, x: Tensor) -> bool:
    """Whether training or scoring draws random numbers outside of dropout layers, as `F.dropout` does."""
    with torch_generator(), torch.no_grad():
        set_dropout(module, 0.0)
        before = generator_states(str(x.device))
        try:
            forward(module.train(), x)
            forward(module.eval(), x)
        except Exception:  # not known
            return True
        return not all(map(torch.equal, before, generator_states(str(x.device))))


def mixes(module: nn.Module, x: Tensor, y: Tensor, loss: LossFunction | None, training: bool) -> bool:
    """Whether output or loss of a sample depend on the others in its batch, as with its statistics."""
    half = len(x) // 2
    if not half:
        return False
    module.train(training)
    with torch_generator(), torch.no_grad():
        try:
            output, part = forward(module, x), forward(module, x[:half])
            if isinstance(output, Answer):
                return True  # its own loss is the mean over a batch
            losses, own = sample_sums(output, y, loss)[0], sample_sums(part, y[:half], loss)[0]
        except Exception:  # such as statistics of a single row; what fails always will be told in training
            return True
    return not (alike(output[:half], part) and alike(losses[:half], own))
