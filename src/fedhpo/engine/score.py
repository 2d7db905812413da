"""Scores of a model on clients' rows: clients' data is concatenated, batched, and summed per client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from fedhpo.protocol.reasons import Reason, raised

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
    for begin in range(0, len(everything), BATCH):
        batch = everything[begin : begin + BATCH]
        sums[:, begin : begin + BATCH] = batch_sums(
            module, view, batch, loss, channels_last, outputs, collate
        )
    return per_client(sums, np.array([len(r) for r in rows], np.int64))


def batch_sums(
    module: nn.Module,
    view: DataView,
    rows: NDArray[np.int64],
    loss: LossFunction | None = None,
    channels_last: bool = False,
    outputs: list[NDArray[Any]] | None = None,
    collate: Collate | None = None,
) -> NDArray[np.float64]:
    """Loss, correct and counted targets of each row of one batch; the module is in its mode for scoring."""
    # Not `inference_mode`: what a model keeps from here for later (a table of positions, say) could then
    # not be used in training.
    with torch.no_grad():
        x, y = view.gather(rows)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        if collate is not None:
            x, y = collated(collate, x, y)
        elif isinstance(x, Batch):
            x = trimmed(x)
        told = forward(module, x)
        if outputs is not None:
            outputs.append(_told(_scores(told), y).cpu().numpy())
        found = np.empty((3, len(rows)))
        for i, values in enumerate(sample_sums(told, y, loss)):
            found[i] = values.cpu().numpy()
    return found


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


class PartScores(NamedTuple):
    """What a part of an evaluation adds to its clients: sums of loss, correct and counted targets.

    Sums are those of a batch's rows of one client: it does not matter in how many parts rows are scored.
    `failures` says of the clients with rows in a batch that failed, why.
    """

    places: NDArray[np.int64]
    sums: NDArray[np.float64]
    failures: dict[int, Reason]


class PartSums:
    """Collects what the batches of a part add."""

    def __init__(self) -> None:
        self._places: list[NDArray[np.int64]] = []
        self._sums: list[NDArray[np.float64]] = []
        self.failures: dict[int, Reason] = {}

    def take(self, owners: NDArray[np.int64], score: Callable[[], NDArray[np.float64]]) -> None:
        """Score a batch whose rows have these owners; it may fail."""
        places, inside = np.unique(owners, return_inverse=True)
        try:
            found = score()
        except Exception as error:  # clients that fail are reported, they do not end the run
            self.failures |= {int(place): raised(error) for place in places if place not in self.failures}
            return
        self._places.append(places)
        self._sums.append(
            np.stack([np.bincount(inside, weights=row, minlength=len(places)) for row in found])
        )

    def found(self) -> PartScores:
        """All of it."""
        if not self._places:
            return PartScores(np.empty(0, np.int64), np.empty((3, 0)), self.failures)
        return PartScores(np.concatenate(self._places), np.concatenate(self._sums, 1), self.failures)


def means(sums: NDArray[np.float64]) -> ClientScores:
    """From each client's sums of loss, correct and counted targets."""
    losses, correct, counted = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        return ClientScores(losses / counted, correct / counted)


def per_client(sums: NDArray[np.float64], sizes: NDArray[np.int64]) -> ClientScores:
    """Means per client from per-sample sums of loss, correct and counted targets."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return means(np.stack([np.bincount(owner, weights=row, minlength=len(sizes)) for row in sums]))
