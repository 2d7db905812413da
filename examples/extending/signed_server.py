"""A server optimiser of one's own: steps by the sign of the mean change. Used from signed_server.toml."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedhpo.aggregation.server import FedAvg, Memory
from fedhpo.core.vectors import Vector


@dataclass(frozen=True)
class SignedServer(FedAvg):
    """Every weight moves by `lr`, in the direction of the mean change smoothed by `beta`."""

    lr: float = 0.01
    beta: float = 0.5

    def direction(self, change: Vector, memory: Memory) -> tuple[Vector, Memory]:
        """The step before `lr`, and what the next round needs."""
        smooth = np.float32(1 - self.beta) * change
        if "smooth" in memory:
            smooth += np.float32(self.beta) * memory["smooth"]
        return np.sign(smooth), {"smooth": smooth}
