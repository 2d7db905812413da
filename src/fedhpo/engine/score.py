"""Scores of a model on clients' rows: clients' data is concatenated, batched, and summed per client."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedhpo.engine.loss import LossFunction, sample_sums
from fedhpo.engine.view import DataView

BATCH = 256


class ClientScores(NamedTuple):
    """Mean loss and accuracy per client; NaN for a client without rows."""

    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def score(
    module: nn.Module,
    view: DataView,
    rows: list[NDArray[np.int64]],
    loss: LossFunction | None = None,
    channels_last: bool = False,
) -> ClientScores:
    """Score the module on each client's rows (one array of rows per client)."""
    module.eval()
    everything = np.concatenate(rows) if rows else np.empty(0, np.int64)
    sums = np.empty((3, len(everything)))
    # Not `inference_mode`: what a model keeps from here for later (a table of positions, say) could then
    # not be used in training.
    with torch.no_grad():
        for begin in range(0, len(everything), BATCH):
            x, y = view.gather(everything[begin : begin + BATCH])
            if channels_last:
                x = x.contiguous(memory_format=torch.channels_last)
            for i, values in enumerate(sample_sums(module(x), y, loss)):
                sums[i, begin : begin + BATCH] = values.cpu().numpy()
    return per_client(sums, np.array([len(r) for r in rows], np.int64))


def per_client(sums: NDArray[np.float64], sizes: NDArray[np.int64]) -> ClientScores:
    """Means per client from per-sample sums of loss, correct and counted targets."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    losses, correct, counted = (np.bincount(owner, weights=row, minlength=len(sizes)) for row in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        return ClientScores(losses / counted, correct / counted)
