"""The hyperparameters that local training and the server step understand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from fedhpo.errors import InputError, unknown_name


@dataclass(frozen=True)
class Local:
    """Hyperparameters of local training: SGD on the client's own data (scope `client`).

    `prox` is FedProx's mu; `lr_decay` multiplies the learning rate once per round of the trial.
    `dropout`, where given, replaces the rate of every dropout layer of the model.
    """

    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch_size: int = 32
    epochs: int = 1
    dropout: float | None = None
    prox: float = 0.0
    lr_decay: float = 1.0

    def __post_init__(self) -> None:
        in_range("client.lr", self.lr, 0, math.inf)
        in_range("client.momentum", self.momentum, 0, 1)
        in_range("client.weight_decay", self.weight_decay, 0, math.inf)
        whole("client.batch_size", self.batch_size)
        whole("client.epochs", self.epochs)
        in_range("client.prox", self.prox, 0, math.inf)
        in_range("client.lr_decay", self.lr_decay, 0, 1)
        if self.dropout is not None:
            in_range("client.dropout", self.dropout, 0, 1)

    def steps(self, rows: int) -> int:
        """How many SGD steps that is on `rows` training rows."""
        return self.epochs * math.ceil(rows / self.batch_size)


T = TypeVar("T")


def parse(kind: type[T], scope: str, values: Mapping[str, Any]) -> T:
    """Build a dataclass of hyperparameters, naming an unknown one and listing the known.

    >>> parse(Local, "client", {"lr": 0.5, "batch_size": 8}).lr
    0.5
    >>> parse(Local, "client", {"learning_rate": 0.5})
    Traceback (most recent call last):
    ...
    fedhpo.errors.InputError: unknown client hyperparameter 'learning_rate'; known: batch_size, dropout, ...
    """
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise unknown_name(f"{scope} hyperparameter", name, known)
    return kind(**values)


def in_range(name: str, value: Any, low: float, high: float) -> None:
    """Refuse a number outside of [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(f"{name} must be a number in [{low:g}, {high:g}], not {value!r}")


def whole(name: str, value: Any) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")
