"""A worker's view of the clients' data: rows in, tensors out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedhpo.data import FederatedData, Split


@dataclass(frozen=True)
class ClientView:
    """What a user's own training function sees of one client: its training rows as tensors."""

    client: int
    x: Tensor
    y: Tensor


class DataView:
    """Gathers rows of the (memory-mapped) samples as normalised tensors."""

    def __init__(self, data: FederatedData, device: str = "cpu") -> None:
        self.data = data
        self.device = device
        self._scale = self._shift = None
        if data.mean is not None and data.std is not None:
            self._scale = torch.as_tensor(1.0 / data.std, dtype=torch.float32)
            self._shift = torch.as_tensor(-data.mean / data.std, dtype=torch.float32)

    def split(self, name: str) -> Split:
        """One of the data's three splits."""
        split: Split = getattr(self.data, name)
        return split

    def gather(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Inputs (float32, or int64 tokens) and targets of these rows."""
        x = _tensor(self.data.x[rows])
        y = _tensor(self.data.y[rows])
        if self.data.is_tokens:
            x = x.long()
        else:
            x = x.float()
            if self._scale is not None and self._shift is not None:
                x = x.mul_(self._scale).add_(self._shift)
        y = y.float() if y.is_floating_point() else y.long()
        return x.to(self.device), y.to(self.device)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
