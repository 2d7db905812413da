"""Which clients a score comes from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedhpo.errors import InputError
from fedhpo.federation.protocol import Ints


@dataclass(frozen=True)
class Evaluator:
    """The clients that are asked for a score: all validation clients, or a fresh draw without replacement.

    `clients` is a number of clients, a share of them in (0, 1), or None for all.
    """

    clients: int | float | None = None

    def __post_init__(self) -> None:
        wanted = self.clients
        if wanted is None:
            return
        if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not wanted > 0:
            raise InputError(f"evaluation clients must be a number or a share of clients, not {wanted!r}")
        if isinstance(wanted, float) and wanted > 1:
            raise InputError(f"evaluation clients, as a share, must lie in (0, 1], not {wanted!r}")

    def draw(self, validation_clients: Ints, rng: np.random.Generator) -> Ints:
        """The clients of one evaluation, in ascending order.

        >>> Evaluator(clients=0.5).draw(np.arange(4), np.random.default_rng(0))
        array([2, 3])
        """
        total = len(validation_clients)
        if self.clients is None:
            return validation_clients
        count = self.clients if isinstance(self.clients, int) else max(1, round(self.clients * total))
        if count > total:
            raise InputError(f"evaluation asks for {count} clients; only {total} hold validation data")
        return np.sort(rng.choice(validation_clients, count, replace=False))
