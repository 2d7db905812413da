"""The hyperparameters that local training and the server step understand."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedhpo.core.hyperparameters import in_range
from fedhpo.core.settings import whole_number


@dataclass(frozen=True)
class Local:
    """Hyperparameters of local training: SGD on the client's own data (scope `client`).

    `prox` is FedProx's mu; `lr_decay` multiplies the learning rate once per round of the trial.
    `dropout`, where given, replaces the rate of every dropout layer of the model. `update_scale` multiplies
    the update before it leaves: how much the client counts, beside its weight at the server.
    """

    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch_size: int = 32
    epochs: int = 1
    dropout: float | None = None
    prox: float = 0.0
    lr_decay: float = 1.0
    update_scale: float = 1.0

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

    def steps(self, rows: int) -> int:
        """How many SGD steps that is on `rows` training rows."""
        return self.epochs * math.ceil(rows / self.batch_size)
