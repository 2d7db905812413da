"""Devices other than the CPU: which one to take, their random numbers, copies to them.

None of this was tried on a real one: in the tests PyTorch pretends to have a CUDA device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

#: Data that takes at most so many bytes as it is stored is kept on the device as a whole.
DATA_BYTES = 4_000_000_000
#: Runs of one stack on a device: as many as keep weights, gradients and momentum in 1 GB.
STACK_BYTES = 1_000_000_000
MOST_RUNS = 256


def chosen(device: str) -> str:
    """The device that a name stands for: "auto" is a GPU where there is one, else the CPU.

    >>> chosen("cpu")
    'cpu'
    """
    if device != "auto":
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def seed_generators(seed: int, device: str) -> None:
    """Seed the global generators that code on this device may draw from: the CPU's and its own."""
    # torch.manual_seed would also visit every other kind of accelerator, at 0.4 ms a call.
    torch.default_generator.manual_seed(seed)
    with _at(device) as own:
        if own is not None:
            own.manual_seed(seed)


def generator_states(device: str) -> list[Tensor]:
    """The states of these generators.

    >>> len(generator_states("cpu"))
    1
    """
    with _at(device) as own:
        return [torch.random.get_rng_state(), *([] if own is None else [own.get_rng_state()])]


@contextlib.contextmanager
def generator_kept(device: str) -> Iterator[None]:
    """The device's own global generator, put back as it was; the CPU's is not its affair."""
    with _at(device) as own:
        state = None if own is None else own.get_rng_state()
        try:
            yield
        finally:
            if own is not None:
                own.set_rng_state(state)


def moved(tensor: Tensor, device: str) -> Tensor:
    """The tensor on the device; to CUDA through pinned memory, so that the CPU need not wait for the copy."""
    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextlib.contextmanager
def _at(device: str) -> Iterator[Any]:
    """PyTorch's module for a kind of device, with this one as the current one; None for the CPU."""
    kind = torch.device(device).type
    if kind == "cpu":
        yield None
        return
    with torch.cuda.device(device) if kind == "cuda" else contextlib.nullcontext():
        yield torch.get_device_module(kind)
