"""Who holds what: rows of one data set dealt to clients.

A partitioner is a small frozen dataclass, called with labels and a generator. The same generator
state gives the same partition; no row goes to two clients unless the scheme says so.

>>> split = Dirichlet(clients=3, alpha=0.5)(np.arange(30) % 2, np.random.default_rng(0))
>>> split.clients, int(split.sizes.sum())
(3, 30)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Protocol

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings, is_number, whole_number
from fedhpo.data.by_class import by_class, check_enough, deal, even_sizes, take
from fedhpo.data.container import Array, Integers, Split

#: More than these do not fit into the memory of one machine.
_MOST_CLIENTS = 10_000_000


class Partitioner(Protocol):
    """Labels (one a row) and, where known, the group of each row, to rows by client."""

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split: ...


def check_clients(clients: int) -> None:
    """Partitioners need a whole number of clients, at least 1."""
    whole_number("clients", clients)
    if clients > _MOST_CLIENTS:
        raise InputError(f"clients={clients!r}; allowed: at most {_MOST_CLIENTS:,}")


@dataclass(frozen=True)
class IID:
    """Rows at random, sizes that differ by at most one; `stratified` keeps class shares equal too."""

    clients: int
    stratified: bool = False

    def __post_init__(self) -> None:
        check_clients(self.clients)
        check_settings(self)

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split:
        check_enough(len(labels), self.clients)
        if self.stratified:
            # Like cards sorted by suit and dealt around the table.
            order = by_class(labels, rng).indices
            return Split.from_owners(np.arange(len(order)) % self.clients, self.clients, order)
        return Split.from_sizes(rng.permutation(len(labels)), even_sizes(len(labels), self.clients))


@dataclass(frozen=True)
class Dirichlet:
    """Label skew: shares drawn from a Dirichlet distribution; the smaller `alpha`, the more skew.

    By default each class is shared out to the clients in proportions Dir(alpha), and client sizes
    follow from that (Yurochkin et al., 2019; Flower's `DirichletPartitioner`). Clients left with fewer
    than `minimum` rows get some from the largest. With `balanced`, all clients have the same size, and
    each draws its own class proportions from Dir(alpha x classes x class shares), which is Dir(alpha)
    where classes are equally large (Hsu et al., 2019, whose concentration is alpha x classes).
    """

    clients: int
    alpha: float
    minimum: int = 1
    balanced: bool = False

    def __post_init__(self) -> None:
        check_clients(self.clients)
        if not (is_number(self.alpha) and self.alpha > 0):
            raise InputError(f"alpha={self.alpha!r}; allowed: a number above 0")
        if not (is_number(self.minimum) and self.minimum >= 0):
            raise InputError(f"minimum={self.minimum!r}; allowed: 0 or more rows a client")
        check_settings(self)

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split:
        check_enough(len(labels), self.clients, self.minimum)
        pool = by_class(labels, rng)
        if self.balanced:
            share = pool.sizes / len(labels)
            weights = rng.dirichlet(self.alpha * pool.clients * share, size=self.clients)
            return deal(labels, even_sizes(len(labels), self.clients), weights, rng)
        shares = rng.dirichlet(np.full(self.clients, self.alpha), size=pool.clients)
        cuts = np.rint(np.cumsum(shares, axis=1) * pool.sizes[:, None]).astype(np.int64)
        cuts[:, -1] = pool.sizes
        counts = np.diff(np.minimum(cuts, pool.sizes[:, None]), axis=1, prepend=0).T
        return _raise_to(self.minimum, take(pool, counts), rng)


def _raise_to(minimum: int, split: Split, rng: np.random.Generator) -> Split:
    """Move rows from the largest clients to those that have fewer than `minimum`."""
    lack = np.maximum(minimum - split.sizes, 0)
    if not lack.any():
        return split
    split = split.shuffled(rng)
    places, owners = split.places, split.owners
    # The rows at the highest places are those that shrink the largest clients first.
    order = np.argsort(-places, kind="stable")
    owners[order[: lack.sum()]] = np.repeat(np.arange(split.clients), lack)
    return Split.from_owners(owners, split.clients, split.indices)


@dataclass(frozen=True)
class Shards:
    """Rows sorted by label, cut in equal shards, `per_client` shards to each (McMahan et al., 2017)."""

    clients: int
    per_client: int = 2

    def __post_init__(self) -> None:
        check_clients(self.clients)
        if not (is_number(self.per_client) and self.per_client >= 1):
            raise InputError(f"per_client={self.per_client!r}; allowed: at least 1 shard")
        check_settings(self)

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split:
        check_enough(len(labels), self.clients, self.per_client)
        shards = self.clients * self.per_client
        shard = np.repeat(np.arange(shards), even_sizes(len(labels), shards))
        owner = rng.permutation(shards) // self.per_client
        return Split.from_owners(owner[shard], self.clients, by_class(labels, rng).indices)


@dataclass(frozen=True)
class Natural:
    """The groups that the data came in: writers, users, roles, domains.

    With `clients`, a random subset of the groups of at least `minimum` rows, in their own order.
    """

    clients: int | None = None
    minimum: int = 1

    def __post_init__(self) -> None:
        if self.clients is not None:
            check_clients(self.clients)
        if not (is_number(self.minimum) and self.minimum >= 1):
            raise InputError(f"minimum={self.minimum!r}; allowed: at least 1 row")
        check_settings(self)

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split:
        if groups is None:
            raise InputError("partition 'natural' needs data that comes in groups; this data has none")
        sizes = np.bincount(groups)
        kept = np.flatnonzero(sizes >= self.minimum)
        if self.clients is not None:
            if self.clients > len(kept):
                raise InputError(
                    f"clients={self.clients}, but the data has {len(kept)} groups "
                    f"of at least {self.minimum} rows"
                )
            kept = np.sort(rng.choice(kept, self.clients, replace=False))
        if len(kept) == 0:
            raise InputError(f"minimum={self.minimum}: no group has as many rows")
        number = np.full(len(sizes), -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        return Split.from_owners(number[groups], len(kept))


def partition_from_dict(mapping: Mapping[str, Any], clients: int | None = None) -> Partitioner:
    """The partitioner that a study file describes; `clients` may stand beside it or inside it.

    >>> partition_from_dict({"kind": "dirichlet", "alpha": 0.5}, clients=10)
    Dirichlet(clients=10, alpha=0.5, minimum=1, balanced=False)
    """
    from fedhpo.data.own_partition import OwnPartition, partitions

    values = dict(mapping)
    if clients is not None and values.setdefault("clients", clients) != clients:
        raise InputError(f"partition: clients={values['clients']!r}, but clients={clients} was also given")
    registry, kind = partitions(), values.get("kind")
    if isinstance(kind, str) and registry.brings(kind):
        return OwnPartition(kind, registry.build(values, "partition", word="kind"), clients)
    partitioner: Partitioner = from_dict("partition", registry.ours, values)
    return partitioner


def from_dict(what: str, kinds: Mapping[str, type[Any]], mapping: Mapping[str, Any]) -> Any:
    """An instance of the dataclass that `mapping["kind"]` names, with the other keys as its fields."""
    values = dict(mapping)
    if "kind" not in values:
        raise InputError(f"{what} has no key 'kind'; known kinds: {', '.join(sorted(kinds))}")
    kind = values.pop("kind")
    if not isinstance(kind, str) or kind not in kinds:
        own = "; your own is written 'package.module:Name'" if what == "partition" else ""
        raise InputError(f"{unknown_name(f'{what} kind', kind, kinds)}{own}")
    known = {f.name for f in fields(kinds[kind])}
    for key in values:
        if key not in known:
            raise unknown_name(f"key of {what} {kind!r}", key, known)
    for f in fields(kinds[kind]):
        if f.name not in values and f.default is MISSING:
            raise InputError(f"{what} {kind!r} needs the key {f.name!r}")
    return kinds[kind](**values)
