"""The hyperparameters that local training and the server step understand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from fedhpo.core.claims import AllBut, setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.hyperparameters import in_range
from fedhpo.core.settings import whole_number
from fedhpo.engine.lr_schedule import CONSTANT, COSINE, STEP, check_schedule

SGD, ADAM, ADAMW = OPTIMISERS = "sgd", "adam", "adamw"
_ADAPTIVE = (ADAM, ADAMW)
#: The horizon of a schedule where it is the length of a full training.
FULL: Final = "full"


@dataclass(frozen=True)
class Local:
    """Hyperparameters of local training on the client's own data (scope `client`).

    `optimiser` is one of torch's, and begins anew in every round; `weight_decay` is decoupled with "adamw".
    `max_steps` steps are taken in place of `epochs`, through the rows as often as needed; a step sums the
    gradients of `accumulate` batches. `max_grad_norm` shortens a step's gradient. `prox` is FedProx's mu.
    `dropout`, where given, replaces the rate of every dropout layer of the model. `label_smoothing` counts in
    training, not in scores.

    Over a trial's rounds `lr` follows `lr_schedule`: "constant", "cosine" down to the share `lr_min`, "step"
    by the factor `lr_gamma` every `lr_step` rounds, or `package.module:function` of round and horizon, after
    `warmup` rounds of a linear rise. `horizon` is the round at which the schedule ends: "full" for the length
    of one full training, or a number of rounds. `lr_decay` multiplies the rate once per round besides.
    `update_scale` multiplies the update before it leaves: how much the client counts, beside its weight at
    the server.
    """

    lr: float = 0.1
    momentum: float = setting(0.0, optimiser=SGD)
    weight_decay: float = 0.0
    batch_size: int = 32
    epochs: int = setting(1, max_steps=None)
    dropout: float | None = None
    prox: float = 0.0
    lr_decay: float = 1.0
    update_scale: float = 1.0
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"
    beta1: float = setting(0.9, optimiser=_ADAPTIVE)
    beta2: float = setting(0.999, optimiser=_ADAPTIVE)
    eps: float = setting(1e-8, optimiser=_ADAPTIVE)
    max_grad_norm: float | None = None
    label_smoothing: float = 0.0
    max_steps: int | None = None
    accumulate: int = 1
    lr_schedule: str = "constant"
    lr_min: float = setting(0.0, lr_schedule=COSINE)
    lr_step: int = setting(10, lr_schedule=STEP)
    lr_gamma: float = setting(0.1, lr_schedule=STEP)
    warmup: int = 0
    horizon: int | Literal["full"] = setting(FULL, lr_schedule=AllBut((CONSTANT, STEP)))

    def __post_init__(self) -> None:
        in_range("client.lr", self.lr, 0, math.inf)
        in_range("client.momentum", self.momentum, 0, 1)
        in_range("client.weight_decay", self.weight_decay, 0, math.inf)
        whole_number("client.batch_size", self.batch_size)
        whole_number("client.epochs", self.epochs)
        in_range("client.prox", self.prox, 0, math.inf)
        in_range("client.lr_decay", self.lr_decay, 0, 1)
        in_range("client.update_scale", self.update_scale, 0, math.inf)
        if self.dropout is not None:
            in_range("client.dropout", self.dropout, 0, 1)
        if (self.optimiser, self.beta1, self.beta2, self.eps) != (SGD, 0.9, 0.999, 1e-8):
            self._check_adaptive()
        if not self.plain:
            self._check_steps()
        schedule = self.lr_schedule, self.lr_min, self.lr_step, self.lr_gamma, self.warmup, self.horizon
        if schedule != ("constant", 0.0, 10, 0.1, 0, FULL):
            self._check_schedule()

    def _check_adaptive(self) -> None:
        if self.optimiser not in OPTIMISERS:
            raise unknown_name("client.optimiser", self.optimiser, OPTIMISERS)
        for name in ("beta1", "beta2"):
            in_range(f"client.{name}", getattr(self, name), 0, 1)
            if getattr(self, name) == 1:
                raise InputError(f"client.{name} must be below 1, not 1")
        in_range("client.eps", self.eps, 0, math.inf)

    def _check_steps(self) -> None:
        if self.max_grad_norm is not None:
            in_range("client.max_grad_norm", self.max_grad_norm, 0, math.inf)
        in_range("client.label_smoothing", self.label_smoothing, 0, 1)
        if self.max_steps is not None:
            whole_number("client.max_steps", self.max_steps)
        whole_number("client.accumulate", self.accumulate)

    def _check_schedule(self) -> None:
        check_schedule(self.lr_schedule)
        in_range("client.lr_min", self.lr_min, 0, 1)
        whole_number("client.lr_step", self.lr_step)
        in_range("client.lr_gamma", self.lr_gamma, 0, math.inf)
        whole_number("client.warmup", self.warmup, least=0)
        if self.horizon != FULL:
            whole_number("client.horizon", self.horizon)

    @property
    def plain(self) -> bool:
        """Whether it is SGD over whole epochs: what stacks and gradients by hand can do."""
        return (
            self.optimiser == SGD
            and self.max_grad_norm is None
            and not self.label_smoothing
            and self.max_steps is None
            and self.accumulate == 1
        )

    def steps(self, rows: int) -> int:
        """How many steps that is on `rows` training rows.

        >>> Local(batch_size=8, epochs=2).steps(20), Local(batch_size=8, max_steps=5).steps(20)
        (6, 5)
        """
        if self.max_steps is not None:
            return self.max_steps
        return self.epochs * math.ceil(rows / (self.batch_size * self.accumulate))

    def samples(self, rows: int) -> int:
        """How many rows that is, each counted as often as it is trained on.

        >>> Local(batch_size=8, epochs=2).samples(20), Local(batch_size=8, max_steps=5).samples(20)
        (40, 36)
        """
        if self.max_steps is None:
            return self.epochs * rows
        size = self.batch_size * self.accumulate
        epochs, rest = divmod(self.max_steps, math.ceil(rows / size)) if rows else (0, 0)
        return epochs * rows + rest * size

    def passes(self, rows: int) -> float:
        """How often each row is trained on, on average."""
        return self.epochs if self.max_steps is None else self.samples(rows) / max(rows, 1)
