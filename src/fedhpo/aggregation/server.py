"""Server optimisers: how the mean change of the clients' models becomes a step of the server's model.

FedAvg (McMahan et al., 2017), FedAvgM (Hsu et al., 2019), and the adaptive ones of Reddi et al. (2021),
their Algorithm 2: no bias correction, and the second moment starts at tau squared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.hyperparameters import in_range, parse
from fedhpo.core.registry import Registry
from fedhpo.core.vectors import Vector

#: A server optimiser's memory between rounds, by name ("momentum", "second").
Memory = Mapping[str, Vector]


@dataclass(frozen=True)
class FedAvg:
    """Move by `lr` times the mean change; `lr_decay` multiplies `lr` once per round."""

    lr: float = 1.0
    lr_decay: float = 1.0

    def __post_init__(self) -> None:
        bounds = {"lr": float("inf"), "tau": float("inf")}
        for f in fields(self):
            in_range(f"server.{f.name}", getattr(self, f.name), 0, bounds.get(f.name, 1))

    def step(self, change: Vector, memory: Memory, round: int) -> tuple[Vector, Memory]:
        """The step to take, and the new memory; `round` counts the rounds already done."""
        direction, memory = self.direction(change, memory)
        lr = np.float32(self.lr * self.lr_decay**round)
        return (direction if lr == 1 else lr * direction), memory

    def direction(self, change: Vector, memory: Memory) -> tuple[Vector, Memory]:
        """The step before it is scaled by the learning rate."""
        return change, memory


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """SGD with momentum on the mean change."""

    momentum: float = 0.9

    def direction(self, change: Vector, memory: Memory) -> tuple[Vector, Memory]:
        velocity = change
        if "momentum" in memory:
            velocity = np.float32(self.momentum) * memory["momentum"] + change
        return velocity, {"momentum": velocity}


@dataclass(frozen=True)
class _Adaptive(FedAvg):
    lr: float = 0.1
    beta1: float = 0.9
    tau: float = 1e-3

    def direction(self, change: Vector, memory: Memory) -> tuple[Vector, Memory]:
        first = np.float32(1 - self.beta1) * change
        if "momentum" in memory:
            first += np.float32(self.beta1) * memory["momentum"]
        squared = change * change
        before = memory["second"] if "second" in memory else np.full_like(change, self.tau**2)
        second = self.second(squared, before)
        direction = np.divide(first, np.sqrt(second) + np.float32(self.tau), dtype=np.float32)
        return direction, {"momentum": first, "second": second}

    def second(self, squared: Vector, before: Vector) -> Vector:
        """The new second moment."""
        raise NotImplementedError


@dataclass(frozen=True)
class FedAdagrad(_Adaptive):
    """Adagrad on the mean change; `beta1` is 0 unless given, as in the paper's experiments."""

    beta1: float = 0.0

    def second(self, squared: Vector, before: Vector) -> Vector:
        return before + squared


@dataclass(frozen=True)
class FedAdam(_Adaptive):
    """Adam on the mean change."""

    beta2: float = 0.99

    def second(self, squared: Vector, before: Vector) -> Vector:
        return np.float32(self.beta2) * before + np.float32(1 - self.beta2) * squared


@dataclass(frozen=True)
class FedYogi(_Adaptive):
    """Yogi on the mean change: the second moment moves by at most the new square."""

    beta2: float = 0.99

    def second(self, squared: Vector, before: Vector) -> Vector:
        moved: Vector = before - np.float32(1 - self.beta2) * squared * np.sign(before - squared)
        return moved


#: Ours; `optimiser_class` knows others too.
OPTIMISERS: Mapping[str, type[FedAvg]] = {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "fedadagrad": FedAdagrad,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
}
optimisers: Registry[Any] = Registry("optimiser", OPTIMISERS, "server optimiser", formerly="aggregation")


@cache
def optimiser_class(name: str, key: str = "") -> type[FedAvg]:
    """The server optimiser of this name: one of ours, or a dataclass that inherits from `FedAvg`.

    >>> optimiser_class("fedadm")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: unknown server optimiser 'fedadm' (did you mean 'fedadam'?); known: fedadagrad, \
fedadam, fedavg, fedavgm, fedyogi; your own is written 'package.module:Name'
    """
    found: Any = optimisers.find(name, key)
    if not isinstance(found, type) or not issubclass(found, FedAvg):
        raise InputError(
            f"{key or 'server'} = {name!r}: must be a dataclass that inherits from "
            "fedhpo.aggregation.server.FedAvg"
        )
    return found


def server_optimiser(default: str, hyperparameters: Mapping[str, Any]) -> FedAvg:
    """The optimiser for a round: `default`, or the one that the hyperparameter `optimiser` names.

    >>> server_optimiser("fedadam", {"lr": 0.01, "beta1": 0.5})
    FedAdam(lr=0.01, lr_decay=1.0, beta1=0.5, tau=0.001, beta2=0.99)
    """
    values = dict(hyperparameters)
    name = values.pop("optimiser", default)
    try:
        return parse(optimiser_class(name), "server", values)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
