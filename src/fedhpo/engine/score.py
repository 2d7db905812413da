"""Scores of a model on clients' rows: clients' data is concatenated, batched, and summed per client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedhpo.core.errors import InputError
from fedhpo.engine.loss import LossFunction, sample_sums
from fedhpo.engine.outputs import Answer, Batch, Collate, collated, forward, trimmed
from fedhpo.engine.view import DataView
from fedhpo.protocol.metrics import Metric, at_clients

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
    outputs: list[NDArray[Any]] | None = None,
    collate: Collate | None = None,
) -> ClientScores:
    """Score the module on each client's rows (one array of rows per client).

    The list `outputs` receives its predictions for each row, batch by batch: probabilities, or numbers.
    """
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
            if collate is not None:
                x, y = collated(collate, x, y)
            elif isinstance(x, Batch):
                x = trimmed(x)
            told = forward(module, x)
            if outputs is not None:
                outputs.append(_told(_scores(told), y).cpu().numpy())
            for i, values in enumerate(sample_sums(told, y, loss)):
                sums[i, begin : begin + BATCH] = values.cpu().numpy()
    return per_client(sums, np.array([len(r) for r in rows], np.int64))


def _scores(told: Any) -> Tensor:
    if isinstance(told, Answer):
        told = told.logits
    if not isinstance(told, Tensor):
        raise InputError("metrics need the model's logits, and it gives none")
    return told


def _told(outputs: Tensor, targets: Tensor) -> Tensor:
    """What metrics are computed from: the probabilities of classes, in float64, or predicted numbers."""
    if targets.is_floating_point():
        return outputs.double().reshape(targets.shape)
    if outputs.ndim != 2:
        raise InputError(f"metrics need one row of classes a sample, the model gives {tuple(outputs.shape)}")
    return outputs.double().softmax(dim=1)


def per_client_metrics(
    metrics: Sequence[Metric],
    outputs: Sequence[NDArray[Any]],
    targets: NDArray[Any],
    rows: Sequence[NDArray[np.int64]],
) -> list[NDArray[np.float64]]:
    """Each metric at each client; NaN for a client without rows."""
    if not metrics:
        return []
    whole = np.concatenate(outputs) if outputs else np.empty((0, 1))
    ends = np.cumsum([len(own) for own in rows])
    parts = [(whole[end - len(own) : end], targets[own]) for end, own in zip(ends, rows, strict=True)]
    return [at_clients(metric, parts) for metric in metrics]


def per_client(sums: NDArray[np.float64], sizes: NDArray[np.int64]) -> ClientScores:
    """Means per client from per-sample sums of loss, correct and counted targets."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    losses, correct, counted = (np.bincount(owner, weights=row, minlength=len(sizes)) for row in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        return ClientScores(losses / counted, correct / counted)
