"""A model as an executor keeps it, and what it had to find out about the module."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedhpo.engine.flat import FlatModel
from fedhpo.engine.local import set_dropout
from fedhpo.engine.streams import torch_generator


class Built(NamedTuple):
    """A module, whether its inputs are laid out channels last, and whether it draws random numbers itself."""

    model: FlatModel
    channels_last: bool
    draws: bool


def to_channels_last(module: nn.Module, x: Tensor) -> bool:
    """Lay a convolutional model out channels last, which is faster; not if its own code cannot take that."""
    if x.ndim != 4 or not any(isinstance(part, nn.Conv2d) for part in module.modules()):
        return False
    try:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        with torch.no_grad():
            module.eval()(x.contiguous(memory_format=torch.channels_last))
    except Exception:  # such as `view` of what is no longer contiguous
        module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return False
    return True


def draws(module: nn.Module, x: Tensor) -> bool:
    """Whether training draws random numbers outside of dropout layers, as `F.dropout` does."""
    with torch_generator(), torch.no_grad():
        set_dropout(module, 0.0)
        before = torch.random.get_rng_state()
        try:
            module.train()(x)
        except Exception:  # not known
            return True
        return not torch.equal(before, torch.random.get_rng_state())
