"""Losses per sample, and what counts as correct, for the kinds of task that data can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedhpo.core.errors import InputError
from fedhpo.data.container import IGNORE
from fedhpo.engine.outputs import Answer

#: Takes the model's output and the targets; gives one loss per sample.
LossFunction = Callable[[Tensor, Tensor], Tensor]


def mean_loss(output: Any, target: Tensor, custom: LossFunction | None, smoothing: float = 0.0) -> Tensor:
    """The loss that local training descends: the mean over the batch (over tokens, for language).

    `smoothing` of the labels is for classes, under our own loss.
    """
    if isinstance(output, Answer):
        if custom is None and output.loss is not None:
            if smoothing:
                raise InputError(
                    "client.label_smoothing has no effect with a model that gives its own loss: leave it out"
                )
            return output.loss
        output = _logits(output)
    if smoothing and (custom is not None or target.is_floating_point()):
        what = "a loss of your own" if custom is not None else "float targets, which are regression"
        raise InputError(f"client.label_smoothing has no effect with {what}: leave it out")
    if custom is not None:
        return _custom_losses(output, target, custom).mean()
    if target.is_floating_point():
        return F.mse_loss(output.view_as(target), target)
    if target.ndim == 2:
        output, target = output.flatten(0, 1), target.flatten()
        return F.cross_entropy(output, target, ignore_index=IGNORE, label_smoothing=smoothing)
    return F.cross_entropy(output, target, label_smoothing=smoothing)


def _logits(output: Answer) -> Tensor:
    if output.logits is None:
        raise InputError("the model gives no logits, which this loss needs")
    return output.logits


def _own_sums(answer: Answer, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The model's own mean loss, as if each row of the batch had it; right for a batch of one client."""
    assert answer.loss is not None
    counted = torch.ones(len(target), device=target.device)
    if target.ndim == 2 and not target.is_floating_point():
        counted = (target != IGNORE).sum(1).float()
    correct = torch.full_like(counted, torch.nan)
    if answer.logits is not None and target.ndim == 1 and not target.is_floating_point():
        correct = (answer.logits.argmax(-1) == target).float()
    return answer.loss.float() * counted, correct, counted


def sample_losses(output: Tensor, target: Tensor, custom: LossFunction | None) -> Tensor:
    """One loss per sample, for padded batches in which each sample has its own weight."""
    if custom is not None:
        return _custom_losses(output, target, custom)
    if target.is_floating_point():
        return F.mse_loss(output.view_as(target), target, reduction="none").reshape(len(target), -1).mean(1)
    return F.cross_entropy(output, target, reduction="none")


def _custom_losses(output: Tensor, target: Tensor, custom: LossFunction) -> Tensor:
    losses = custom(output, target)
    if losses.shape[:1] != target.shape[:1]:
        raise InputError(
            f"loss must give one loss per sample (reduction='none'): its result has shape "
            f"{tuple(losses.shape)} for {len(target)} samples"
        )
    return losses.flatten(1).mean(1) if losses.ndim > 1 else losses


def sample_sums(output: Any, target: Tensor, custom: LossFunction | None) -> tuple[Tensor, Tensor, Tensor]:
    """Per sample: summed loss, number correct (NaN for regression), and how many targets these are."""
    if isinstance(output, Answer):
        if custom is None and output.loss is not None:
            return _own_sums(output, target)
        output = _logits(output)
    ones = torch.ones(len(target), device=target.device)
    if target.is_floating_point():
        losses = sample_losses(output, target, custom)
        return losses, torch.full_like(ones, torch.nan), ones
    if target.ndim == 2:
        counted = target != IGNORE
        correct = (output.argmax(-1) == target) & counted
        if custom is not None:
            losses = _custom_losses(output, target, custom) * counted.sum(1)
        else:
            losses = F.cross_entropy(output.transpose(1, 2), target, ignore_index=IGNORE, reduction="none")
            losses = losses.sum(1)
        return losses, correct.sum(1).float(), counted.sum(1).float()
    return sample_losses(output, target, custom), (output.argmax(-1) == target).float(), ones
