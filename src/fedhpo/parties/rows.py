"""A node's rows: its part of the study's data, or rows of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.data import FederatedData, Split, from_clients
from fedhpo.federations.remote.clients import SPLITS, Hello
from fedhpo.parties.context import Context, named

#: A client's own rows: what `fedhpo.from_clients` takes for one client.
DataFunction = Callable[[Context], Any]


class NodeRows:
    """The rows of the nodes in this process.

    They are those of the node's `partition-id` in what `load` returns, or what `data(context)` returns:
    arrays `(x, y)`, a dict of these for "train", "validation" and "test", or a `FederatedData` of one client,
    which also says how many classes there are. `tells` is whether the server may know how many there are.
    """

    def __init__(
        self, load: Callable[[], FederatedData], data: DataFunction | None, tells: bool = True
    ) -> None:
        self._load, self._data, self.tells = load, data, tells
        self._held: dict[int | None, FederatedData] = {}

    def key(self, context: Context) -> int | None:
        """Whose data it is: a node's own, or all nodes'."""
        return None if self._data is None else context.node_id

    def of(self, context: Context, client: int) -> FederatedData:
        """Data in which client `place` is this node; the same object until the client's number changes."""
        key = self.key(context)
        if key not in self._held:
            self._held[key] = self._load() if self._data is None else own_rows(self._data(context), client)
        if self._data is not None and self._held[key].clients != client + 1:
            self._held[key] = placed(self._held[key], client)
        return self._held[key]

    def place(self, context: Context, client: int) -> int:
        """Which client of the data this node is."""
        if self._data is not None:
            return client
        partition = context.node_config.get("partition-id")
        if partition is None:
            raise InputError("the node's config has no partition-id: which part of the data is its own?")
        return int(partition)

    def told(self, rows: int) -> int:
        """The number of rows as reported to the server: exact, or only zero or one."""
        return rows if self.tells else min(rows, 1)

    def hello(self, context: Context, training: str) -> Hello:
        """This node's description of itself."""
        data, place = self.of(context, 0), self.place(context, 0)
        sizes = {split: self.told(len(getattr(data, split).rows(place))) for split in SPLITS}
        return Hello(*named(context), sizes, data.shape, data.classes, training)


def own_rows(given: Any, client: int) -> FederatedData:
    """One client's rows as data in which it is number `client`, so that its random streams are its own."""
    data = given if isinstance(given, FederatedData) else from_clients([given])
    return placed(data, client)


def placed(data: FederatedData, client: int) -> FederatedData:
    """The same rows, all of them those of client number `client`.

    >>> data = from_clients([(np.zeros((10, 2)), np.zeros(10, int))])
    >>> placed(data, 3).train.sizes.tolist()
    [0, 0, 0, 8]
    """

    def alone(split: Split) -> Split:
        sizes = np.zeros(client + 1, np.int64)
        sizes[client] = len(split.indices)
        return Split.from_sizes(split.indices, sizes)

    return replace(
        data,
        train=alone(data.train),
        validation=alone(data.validation),
        test=alone(data.test),
        client_names=None,
    )
