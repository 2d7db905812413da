"""The simulated federation spread over a Ray cluster: same calls, same results, more machines."""

from __future__ import annotations

from typing import Any

from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.engine.executor import Setup
from fedhpo.engine.pool import Pool
from fedhpo.federations.simulated import SimulatedFederation


class RayFederation(SimulatedFederation):
    """Clients in the memory of a Ray cluster's nodes; see `fedhpo.simulate` for the arguments.

    Data is copied once to every node, weights once for each round. Each (trial, round, client) has its own
    random stream, so results equal those of one machine, bit for bit, if its processors are of one kind.
    """

    def __init__(
        self, setup: Setup, address: str = "auto", *, workers: int | None = None, **settings: Any
    ) -> None:
        if setup.device != "cpu":
            raise InputError(f"device must be 'cpu' on a Ray cluster, not {setup.device!r}")
        if workers == 0:
            raise InputError("workers must be at least 1 on a Ray cluster, not 0")
        super().__init__(setup, workers=workers, **settings)
        self._address, self._wanted = address, workers

    def _start_pool(self) -> tuple[Pool, str]:
        try:
            from fedhpo.engine.cluster import RayPool
        except ModuleNotFoundError as error:
            raise MissingExtraError("ray", "ray") from error
        return RayPool(self._setup, self._address, self._wanted), ""

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "runtime": "ray"}
