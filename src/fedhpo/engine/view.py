"""A worker's view of the clients' data: rows in, tensors out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedhpo.data import FederatedData, Split
from fedhpo.engine import device as devices
from fedhpo.engine.outputs import Batch


@dataclass(frozen=True)
class ClientView:
    """What a user's own training function sees of one client: its training rows as tensors.

    Where rows are several named tensors, `x` is a dict of them.
    """

    client: int
    x: Any
    y: Tensor

    @classmethod
    def of(cls, client: int, x: Any, y: Tensor) -> ClientView:
        """The view of rows as `DataView.gather` gives them."""
        return cls(client, x.named if isinstance(x, Batch) else x, y)


class DataView:
    """Gathers rows of the (memory-mapped) samples as normalised tensors.

    On a device other than the CPU small data is copied there once, as it is stored, and gathered there.
    """

    def __init__(self, data: FederatedData, device: str = "cpu") -> None:
        self.data = data
        self.device = device
        self._scale = self._shift = None
        if data.mean is not None and data.std is not None:
            self._scale = torch.as_tensor(1.0 / data.std, dtype=torch.float32)
            self._shift = torch.as_tensor(-data.mean / data.std, dtype=torch.float32)
        self._kept: tuple[Tensor, Tensor] | None = None
        if (
            device != "cpu"
            and data.x.dtype.names is None
            and data.x.nbytes + data.y.nbytes <= devices.DATA_BYTES
        ):
            self._kept = _tensor(data.x).to(device), _tensor(data.y).to(device)
            if self._scale is not None and self._shift is not None:
                self._scale, self._shift = self._scale.to(device), self._shift.to(device)

    def split(self, name: str) -> Split:
        """One of the data's three splits."""
        split: Split = getattr(self.data, name)
        return split

    def gather(self, rows: NDArray[np.int64]) -> tuple[Any, Tensor]:
        """Inputs (float32, int64 tokens, or a `Batch` of several) and targets of these rows."""
        if self.data.x.dtype.names is not None:
            return self._named(rows)
        if self._kept is None:
            x, y = _tensor(self.data.x[rows]), _tensor(self.data.y[rows])
        else:
            places = devices.moved(torch.from_numpy(rows), self.device)
            x, y = (part.index_select(0, places) for part in self._kept)
        if self.data.is_tokens:
            x = x.long()
        else:
            x = x.float()
            if self._scale is not None and self._shift is not None:
                x = x.mul_(self._scale).add_(self._shift)
        y = y.float() if y.is_floating_point() else y.long()
        if self._kept is not None or self.device == "cpu":
            return x, y
        return devices.moved(x, self.device), devices.moved(y, self.device)

    def _named(self, rows: NDArray[np.int64]) -> tuple[Batch, Tensor]:
        """Rows that are several named tensors."""
        chosen, y = self.data.x[rows], _tensor(self.data.y[rows])
        named = {
            # A copy: a field's numbers lie apart in memory.
            name: _typed(torch.from_numpy(chosen[name].copy())).to(self.device)
            for name in self.data.x.dtype.names or ()
        }
        return Batch(named), _typed(y).to(self.device)


def _typed(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor.long()


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
