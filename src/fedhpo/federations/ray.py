"""The simulation spread over a Ray cluster: same calls, same results, more machines.

Data is copied once to every node, weights once for each round. Each (trial, round, client) has its own random
stream, so results equal those of one machine, bit for bit, if its processors are of one kind.
"""

from __future__ import annotations

from collections.abc import Callable

from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.engine.executor import Setup
from fedhpo.engine.pool import Pool


def on_ray(setup: Setup, address: str, workers: int | None) -> Callable[[Setup], tuple[Pool, str]]:
    """What starts the cluster's workers when they are needed; see `fedhpo.simulate` for the arguments."""
    if setup.device != "cpu":
        raise InputError(f"device must be 'cpu' on a Ray cluster, not {setup.device!r}")
    if workers == 0:
        raise InputError("workers must be at least 1 on a Ray cluster, not 0")

    def start(setup: Setup) -> tuple[Pool, str]:
        try:
            from fedhpo.engine.cluster import RayPool
        except ModuleNotFoundError as error:
            raise MissingExtraError("ray", "ray") from error
        return RayPool(setup, address, workers), ""

    return start
