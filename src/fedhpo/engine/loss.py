"""Losses per sample, and what counts as correct, for the kinds of task that data can have."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from fedhpo.core.errors import InputError
from fedhpo.data.container import IGNORE

#: Takes the model's output and the targets; gives one loss per sample.
LossFunction = Callable[[Tensor, Tensor], Tensor]


def mean_loss(output: Tensor, target: Tensor, custom: LossFunction | None) -> Tensor:
    """The loss that local training descends: the mean over the batch (over tokens, for language)."""
    if custom is not None:
        return _custom_losses(output, target, custom).mean()
    if target.is_floating_point():
        return F.mse_loss(output.view_as(target), target)
    if target.ndim == 2:
        return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=IGNORE)
    return F.cross_entropy(output, target)


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


def sample_sums(output: Tensor, target: Tensor, custom: LossFunction | None) -> tuple[Tensor, Tensor, Tensor]:
    """Per sample: summed loss, number correct (NaN for regression), and how many targets these are."""
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
