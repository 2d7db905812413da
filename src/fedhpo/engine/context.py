"""`TrainContext`: what a user's own training function is told besides model, rows and hyperparameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import nn

from fedhpo.engine.view import ClientView


@dataclass(frozen=True)
class TrainContext:
    """Where in a run a client trains.

    >>> context = TrainContext(round=5, rounds=20, trial=0, client=3, seed=7, device="cpu")
    >>> 0.1 * (1 - context.round / context.rounds)
    0.07500000000000001
    >>> int(torch.randint(100, (1,), generator=context.generator)) < 100
    True
    """

    #: How many rounds the trial has behind it: 0 in its first round.
    round: int
    #: The rounds of one full training, as given to `fedhpo.tune`.
    rounds: int
    trial: int
    client: int
    #: The same for the same trial, round and client, and no other.
    seed: int
    device: str

    @cached_property
    def generator(self) -> torch.Generator:
        """A generator on the device, seeded with `seed`."""
        return torch.Generator(self.device).manual_seed(self.seed)


#: A user's own local training: trains the model in place. The last argument is the context where the
#: parameter is called `context` or annotated as `TrainContext`; else it is a `torch.Generator`.
TrainFunction = (
    Callable[[nn.Module, ClientView, Mapping[str, Any], TrainContext], Any]
    | Callable[[nn.Module, ClientView, Mapping[str, Any], torch.Generator], Any]
)


def call_training(
    train: TrainFunction,
    model: nn.Module,
    data: ClientView,
    hyperparameters: Mapping[str, Any],
    context: TrainContext,
) -> Any:
    """Call a user's training function with the context, or with the generator that earlier versions gave."""
    last: Any = context if wants_context(train) else context.generator
    return train(model, data, hyperparameters, last)


def wants_context(train: Any) -> bool:
    """Whether a training function asks for the context.

    >>> wants_context(lambda model, data, hp, context: None), wants_context(lambda model, data, hp, g: None)
    (True, False)
    """
    try:
        return _wants_context(train)
    except TypeError:  # an object that cannot be hashed
        return _wants_context.__wrapped__(train)


@cache
def _wants_context(train: Any) -> bool:
    try:
        bound = inspect.signature(train).bind(None, None, None, None)
    except (TypeError, ValueError):  # refused by the preflight; or a builtin without a signature
        return False
    if len(bound.arguments) < 4:  # takes them as `*arguments`
        return False
    last = bound.signature.parameters[list(bound.arguments)[3]]
    return last.name == "context" or last.annotation in (TrainContext, "TrainContext", "fh.TrainContext")
