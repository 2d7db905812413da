"""Partitions by name: ours, those of installed packages, and a user's own.

One of your own is a dataclass with a field `clients`, called as ours are; see `fedhpo.data.partition`. In
place of a `Split` it may give for each row the number of its client, -1 for nobody. A study file names it:

    partition = { kind = "package.module:BySeason", seasons = 4 }
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.registry import Registry
from fedhpo.core.settings import shown
from fedhpo.core.user_code import in_words
from fedhpo.data.container import Array, Integers, Split
from fedhpo.data.partition import IID, Dirichlet, Natural, Partitioner, Shards
from fedhpo.data.skew import GaussianSkew, HeterogeneityIndex, PoissonSkew


def partitions() -> Registry[Any]:
    """The names of partitions.

    >>> partitions().find("iid")(clients=3)
    IID(clients=3, stratified=False)
    """
    ours: dict[str, type[Any]] = {
        "iid": IID,
        "dirichlet": Dirichlet,
        "shards": Shards,
        "natural": Natural,
        "heterogeneity_index": HeterogeneityIndex,
        "gaussian": GaussianSkew,
        "poisson": PoissonSkew,
    }
    return Registry("partition", ours, "partition kind")


@dataclass(frozen=True)
class OwnPartition:
    """A user's partition, whose answer is checked: no row goes to two clients, and no client is missing."""

    name: str
    inner: Partitioner
    clients: int | None = None

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split:
        """Deal the rows."""
        where = f"partition = {self.name!r}"
        try:
            dealt: Any = self.inner(labels, rng, groups)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        except Exception as error:
            raise InputError(f"{where}: it raised {in_words(error)}") from error
        found = dealt if isinstance(dealt, Split) else self._split(np.asarray(dealt), len(labels), where)
        if self.clients is not None and found.clients != self.clients:
            raise InputError(f"{where}: deals rows to {found.clients} clients, {self.clients} were asked for")
        rows = found.indices
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(labels)):
            raise InputError(f"{where}: deals a row that is not there; rows are 0 to {len(labels) - 1}")
        if len(np.unique(rows)) != len(rows):
            raise InputError(f"{where}: deals a row to two clients")
        return found

    def _split(self, owners: Array, rows: int, where: str) -> Split:
        if owners.shape != (rows,) or owners.dtype.kind not in "iu":
            raise InputError(
                f"{where}: must give a Split, or the client of each of {rows} rows, not {shown(owners)}"
            )
        clients = self.clients if self.clients is not None else int(owners.max(initial=-1)) + 1
        if owners.max(initial=-1) >= clients:
            raise InputError(f"{where}: deals to client {owners.max()}; clients are 0 to {clients - 1}")
        return Split.from_owners(owners.astype(np.int64), clients)
