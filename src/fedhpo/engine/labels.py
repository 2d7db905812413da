"""Checks that the labels of all clients suit the model's output."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedhpo.data import FederatedData
from fedhpo.data.container import IGNORE
from fedhpo.engine.task import PreflightError


def check_labels(data: FederatedData, output: Any, loss: Any, metric: str) -> None:
    """Refuse labels for which the model has no output, at any client."""
    if data.y.dtype.kind == "f" or not isinstance(output, Tensor):
        return
    if output.ndim != data.y.ndim + 1:
        return
    width = int(output.shape[-1])
    owned = data.looked_at
    labels = data.y[owned]
    counted = labels[labels != IGNORE] if data.y.ndim > 1 else labels
    low, high = int(counted.min(initial=0)), int(counted.max(initial=0))
    least = int(counted.min()) if len(counted) else 0
    if width == 1 and high > 0:
        if loss is not None and metric == "loss":
            return
        raise PreflightError(
            f"the model has one output, the labels go to {high}: the class with the largest score would "
            "always be class 0",
            f"a last layer with {high + 1} outputs, nn.Linear(..., {high + 1})"
            + ("" if loss is None else ", or objective='loss'"),
        )
    if low >= 0 and high < width:
        return
    bad = (labels >= width) | ((labels < 0) & (labels != IGNORE))
    where = "some clients"
    if not data.is_lazy:
        where = _holders(data, owned, np.asarray(bad.reshape(len(bad), -1).any(1)))
    if least == 1 and high == width:
        instead = f"y - 1: labels count from 0, and the model's {width} outputs are for 0 to {width - 1}"
    elif low < 0:
        instead = f"labels from 0 to {width - 1}"
    else:
        instead = f"a last layer with {high + 1} outputs, nn.Linear(..., {high + 1}), or labels below {width}"
    raise PreflightError(
        f"the model has {width} outputs, for labels 0 to {width - 1}; the labels go from {least} to {high} "
        f"({where})",
        instead,
    )


def _holders(data: FederatedData, owned: NDArray[np.int64], bad: NDArray[np.bool_]) -> str:
    owners = np.concatenate([data.train.owners, data.validation.owners, data.test.owners])[bad]
    clients = np.unique(owners)
    return (
        f"{int(bad.sum())} rows of {len(clients)} clients, such as client {data.client_name(int(clients[0]))}"
    )
