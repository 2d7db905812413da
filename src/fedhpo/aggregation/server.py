"""Server optimisers: how the mean change of the clients' models becomes a step of the server's model.

FedAvg (McMahan et al., 2017), FedAvgM (Hsu et al., 2019), the adaptive ones of Reddi et al. (2021), their
Algorithm 2: no bias correction, and the second moment starts at tau squared; and FedExP (Jhunjhunwala et al.,
2023), which has no learning rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.hyperparameters import in_range, parse
from fedhpo.core.registry import Registry
from fedhpo.core.vectors import Vector

#: A server optimiser's memory between rounds, by name ("momentum", "second").
Memory = Mapping[str, Vector]


@dataclass(frozen=True)
class Lengths:
    """How long a round's updates were: the mean of their squared norms, and how many there were."""

    mean_squared: float
    count: int


@dataclass(frozen=True)
class ServerOptimiser:
    """What every server optimiser has; its fields are the server's hyperparameters."""

    #: Whether it needs the length of each update, and so a server that sees them one by one.
    needs_lengths: ClassVar[bool] = False

    def step(
        self, change: Vector, memory: Memory, round: int, lengths: Lengths | None = None
    ) -> tuple[Vector, Memory]:
        """The step to take, and the new memory; `round` counts the rounds already done."""
        raise NotImplementedError


@dataclass(frozen=True)
class FedAvg(ServerOptimiser):
    """Move by `lr` times the mean change; `lr_decay` multiplies `lr` once per round."""

    lr: float = 1.0
    lr_decay: float = 1.0

    def __post_init__(self) -> None:
        bounds = {"lr": float("inf"), "tau": float("inf")}
        for f in fields(self):
            in_range(f"server.{f.name}", getattr(self, f.name), 0, bounds.get(f.name, 1))

    def step(
        self, change: Vector, memory: Memory, round: int, lengths: Lengths | None = None
    ) -> tuple[Vector, Memory]:
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


@dataclass(frozen=True)
class FedExP(ServerOptimiser):
    """FedExP: no learning rate, but one from the updates of each round.

    Jhunjhunwala, Wang and Joshi, 2023, "FedExP: speeding up federated averaging via extrapolation".

    The rate of each round is the mean squared norm of the updates over twice the squared norm of their mean,
    at least 1 (their Eq. 7): the more clients pull apart, the shorter their mean is for what each of them
    did. As in the authors' code, updates weigh as in the mean, `epsilon` counts once for each update and is
    multiplied by `epsilon_decay` each round, and what is evaluated is the mean of the last two models,
    because the models themselves swing.

    >>> FedExP(epsilon=0.0).rate(np.array([1.0, 0.0], np.float32), 0, Lengths(5.0, 2))
    2.5
    """

    epsilon: float = 1e-3
    epsilon_decay: float = 0.996

    needs_lengths: ClassVar[bool] = True

    def __post_init__(self) -> None:
        in_range("server.epsilon", self.epsilon, 0, float("inf"))
        in_range("server.epsilon_decay", self.epsilon_decay, 0, 1)

    def rate(self, change: Vector, round: int, lengths: Lengths) -> float:
        """The round's learning rate."""
        own = float((change.astype(np.float64) ** 2).sum())
        floor = lengths.count * self.epsilon * self.epsilon_decay ** (round + 1)
        return max(1.0, lengths.mean_squared / (2 * (own + floor))) if own + floor else 1.0

    def step(
        self, change: Vector, memory: Memory, round: int, lengths: Lengths | None = None
    ) -> tuple[Vector, Memory]:
        """The mean change, extrapolated."""
        if lengths is None:
            raise InputError(f"fedexp: {LENGTHS_UNKNOWN}")
        step = np.float32(self.rate(change, round, lengths)) * change
        return step, {HALF_STEP: np.float32(0.5) * step} if round else {}


#: In a memory: half of the last step, by which the model to evaluate is behind the one to train on.
HALF_STEP = "half_step"
LENGTHS_UNKNOWN = "needs the length of every client's update, which is not known here"


def refuse_lengths(optimiser: str, rule: str) -> None:
    """Refuse an optimiser that goes by the lengths of all updates where a rule guards against some of them.

    >>> refuse_lengths("fedexp", "median")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: server optimiser 'fedexp': its rate follows the lengths of all updates, so that one \
hostile client could set it in spite of aggregation = 'median': write aggregation = 'mean', or use 'fedavg'
    """
    if optimiser_class(optimiser).needs_lengths and rule != "mean":
        raise InputError(
            f"server optimiser {optimiser!r}: its rate follows the lengths of all updates, so that one "
            f"hostile client could set it in spite of aggregation = {rule!r}: write aggregation = 'mean', or "
            "use 'fedavg'"
        )


#: Ours; `optimiser_class` knows others too.
OPTIMISERS: Mapping[str, type[ServerOptimiser]] = {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "fedadagrad": FedAdagrad,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedexp": FedExP,
}
optimisers: Registry[Any] = Registry("optimiser", OPTIMISERS, "server optimiser", formerly="aggregation")


@cache
def optimiser_class(name: str, key: str = "") -> type[ServerOptimiser]:
    """The server optimiser of this name: one of ours, or a dataclass that inherits from `FedAvg`.

    >>> optimiser_class("fedadm")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: unknown server optimiser 'fedadm' (did you mean 'fedadam'?); known: fedadagrad, \
fedadam, fedavg, fedavgm, fedexp, fedyogi; your own is written 'package.module:Name'
    """
    found: Any = optimisers.find(name, key)
    if not isinstance(found, type) or not issubclass(found, ServerOptimiser):
        raise InputError(
            f"{key or 'server'} = {name!r}: must be a dataclass that inherits from "
            "fedhpo.aggregation.server.FedAvg"
        )
    return found


def server_optimiser(default: str, hyperparameters: Mapping[str, Any]) -> ServerOptimiser:
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
