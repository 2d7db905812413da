"""FedHyper (Wang, Wang and Li, 2024, FedHyper: a universal and robust learning rate scheduler for federated
learning with hypergradient descent, ICLR 2024): learning rates of clients and server that follow a gradient.

The derivative of the loss by the last step's learning rate is minus the inner product of two consecutive
updates of the model: where they agree a longer step would have been better, where they point apart a shorter
one. Both rates move by it, within bounds around those of the trial's config.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from fedhpo.core.claims import setting
from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.protocol.federation import PRODUCTS, RoundReport
from fedhpo.schedules import FixedLength, Halving
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.search.search import Search


@dataclass(frozen=True)
class HyperGradient:
    """The client policy: after each round both learning rates follow the product of the last two updates.

    With the `rule` "product" a rate moves by the inner product itself, as in the paper; with "cosine" its
    logarithm moves by `step` times the cosine of the angle, whatever the size of the model. The server's rate
    stays within a factor `server_bound` of the config's, the clients' within `client_bound`; a bound of 1
    keeps a rate as it is.
    """

    rule: Literal["product", "cosine"] = "cosine"
    step: float = 0.1
    server_bound: float = 3.0
    client_bound: float = 10.0

    needs: ClassVar[frozenset[str]] = frozenset({PRODUCTS})
    scores: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check_settings(self)
        if self.step <= 0 or self.server_bound < 1 or self.client_bound < 1:
            raise InputError("step must be positive, server_bound and client_bound at least 1")

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> HyperState:
        """The rates of the config."""
        if "lr" not in config.client:
            raise InputError("fedhyper needs client.lr in the space, tuned or fixed")
        bounds = {"client": self.client_bound, "server": self.server_bound}
        limits = {scope: _limits(config, space, scope, bound) for scope, bound in bounds.items()}
        return HyperState(self, config, limits)


def _limits(config: Config, space: Space, scope: str, bound: float) -> tuple[float, float]:
    """How far a rate may move: by the bound, and inside the space."""
    rate = float(getattr(config, scope).get("lr", 1.0))
    tuned: Any = space.hyperparameters.get(f"{scope}.lr")
    low, high = getattr(tuned, "low", 0.0), getattr(tuned, "high", math.inf)
    return max(rate / bound, low), min(rate * bound, high)


@dataclass(eq=False)
class HyperState:
    """The rates of one trial, each with its limits."""

    policy: HyperGradient
    config: Config
    limits: Mapping[str, tuple[float, float]]
    rates: dict[str, float] = field(init=False)
    past: list[dict[str, float]] = field(default_factory=list)
    _squared: float | None = None

    def __post_init__(self) -> None:
        self.rates = {scope: float(getattr(self.config, scope).get("lr", 1.0)) for scope in self.limits}

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> Mapping[str, Any]:
        """The config with the clients' rate as it is now."""
        return {**self.config.client, "lr": self.rates["client"]}

    def server(self, server: Mapping[str, Any]) -> Mapping[str, Any]:
        """The server's hyperparameters with its rate as it is now."""
        return {**server, "lr": self.rates["server"]}

    def learn(self, report: RoundReport) -> None:
        """Move both rates; there is nothing to go by after the first round."""
        products = report.products
        if products is None:
            return
        before, self._squared = self._squared, products.aggregate_squared
        product = products.aggregate_with_previous
        if before is None or not math.isfinite(product) or not before * self._squared > 0:
            return
        cosine = product / math.sqrt(before * self._squared)
        for scope, (low, high) in self.limits.items():
            rate = self.rates[scope]
            by_angle = rate * math.exp(self.policy.step * cosine)
            moved = rate + product if self.policy.rule == "product" else by_angle
            self.rates[scope] = min(max(moved, low), high)
        self.past.append({"round": report.round, "cosine": cosine, **self.rates})

    def deployed(self, config: Config) -> Config:
        """The config that the rates started from: they belong to this training."""
        return config

    def history(self) -> dict[str, Any]:
        """The rates and the cosine of each round, by name."""
        names = ("round", "cosine", *self.limits)
        return {"kind": "rates", **{name: [row[name] for row in self.past] for name in names}}


@dataclass(frozen=True)
class FedHyper(Preset):
    """FedHyper: learning rates of clients and server follow their hypergradient while each trial trains.

    `schedule` "halving" (as `fedhpo.SHA`: `trials` follows the total, `1/rate` survive each elimination) or
    "fixed" (`trials` of full length, as many as the total pays for by default). The other settings are those
    of `HyperGradient`.
    """

    schedule: Literal["fixed", "halving"] = "halving"
    trials: int | None = None
    rate: int = setting(3, schedule="halving")
    rule: Literal["product", "cosine"] = "cosine"
    step: float = 0.1
    server_bound: float = 3.0
    client_bound: float = 10.0

    name: ClassVar[str] = "fedhyper"

    def tuner(self) -> Tuner:
        """Random configs under the schedule, whose rates move."""
        policy = HyperGradient(self.rule, self.step, self.server_bound, self.client_bound)
        if self.schedule == "fixed":
            return Tuner(FixedLength(self.trials), policy=policy)
        return Tuner(Halving(self.trials, self.rate, None, 3), policy=policy)

    def rounds(self, search: Search) -> int:
        """The rounds it will spend."""
        self.tuner().policy.begin(search.space.default(), search.space, np.random.default_rng(0))
        return super().rounds(search)
