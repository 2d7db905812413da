"""The first layer of our models."""

from __future__ import annotations

from torch import Tensor, nn

from fedhpo.core.errors import InputError


class Input(nn.Module):
    """The first layer: passes batches of samples of the right shape, and explains the others."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, batch: Tensor) -> Tensor:
        if tuple(batch.shape[1:]) != self.shape or batch.ndim == 0:
            raise InputError(
                f"the model takes batches of samples of shape {self.shape}, "
                f"found a batch of shape {tuple(batch.shape)}"
            )
        return batch

    def extra_repr(self) -> str:
        return f"shape={self.shape}"
