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
    why = to_channels_last(model.module, x)
    hand = None if own_training else by_hand(model, x, y, loss)
    return Built(
        model,
        why == "" and x.ndim == 4,
        draws(model.module, x),
        mixes(model.module, x, y, loss, training=False),
        dropout_layers(model.module),
        hand,
        None if loss else stacked_chain(model, x),
    )


def to_channels_last(module: nn.Module, x: Tensor) -> str | None:
    """Lay a model with two-dimensional convolutions out channels last, which is faster; else say why not.

    None where there is nothing to lay out. The architecture decides, and a check that its own code takes the
    layout: output and gradients for numbers from a fixed seed are the same but for rounding. What is rounded
    otherwise differs by a few units of float32 in the sums; an activation at its bend, or the largest of
    equals, may then go the other way, for one place of many. What is read in a wrong order differs wholly.
    The root of float32's unit lies far from both.
    """
    if not any(isinstance(part, nn.Conv2d) for part in module.modules()):
        return None
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return "inputs are not one tensor of real numbers"
    module.eval()
    generator = torch.Generator().manual_seed(0)
    tried = torch.rand(x.shape, generator=generator).to(x.device)
    try:
        usual = _output_and_gradients(module, tried)
    except Exception as error:  # what fails always will be told in training
        return f"the model fails on numbers from 0 to 1: {type(error).__name__}"
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        why = _difference(usual, _output_and_gradients(module, laid_out(tried)))
    except Exception as error:  # such as `view` of what is no longer contiguous
        told = f"{type(error).__name__}; `reshape` or `flatten` in place of `view` may help"
        why = f"the model's code fails with it ({told})"
    if why:
        module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return why


def laid_out(x: Tensor) -> Tensor:
    """Images channels last; other inputs as they are."""
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


def _difference(usual: list[Tensor], other: list[Tensor]) -> str:
    """What differs by more than rounding: outputs by their own size, gradients by that of all of them."""
    unit = torch.finfo(torch.float32).eps ** 0.5
    if len(usual) != len(other):
        return "other parameters get a gradient with it"
    for name, first, second in (("output", usual[:1], other[:1]), ("gradients", usual[1:], other[1:])):
        sizes, apart = (
            sum(float(part.double().square().sum()) for part in parts)
            for parts in (first, [a - b for a, b in zip(first, second, strict=True)])
        )
        if not apart**0.5 <= unit * sizes**0.5:  # also where one is no number
            return f"the model's {name} differ{'s' if name == 'output' else ''} with it"
    return ""


def _output_and_gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    with torch_generator():
        torch.manual_seed(0)
        told = forward(module, x)
    output = told.logits if isinstance(told, Answer) and told.logits is not None else told
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
