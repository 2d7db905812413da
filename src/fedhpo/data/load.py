"""Data sets by name: `load("femnist")`, `load("digits", clients=10)`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.registry import Registry
from fedhpo.core.settings import is_number
from fedhpo.core.streams import stream
from fedhpo.data import columns
from fedhpo.data.container import FederatedData, Integers
from fedhpo.data.partition import Partitioner, check_clients, partition_from_dict
from fedhpo.data.samples import Samples, assemble
from fedhpo.data.sets import images, synthetic, tabular, text
from fedhpo.data.sets.request import Request
from fedhpo.data.split import InsideClients, SplitRule, split_from_dict


@dataclass(frozen=True)
class Dataset:
    """A data set that `load` knows: what it is, and how it is read."""

    description: str
    read: Callable[..., Samples]

    @property
    def options(self) -> dict[str, Any]:
        """What `load` takes for this set beyond its own arguments, with the defaults."""
        parameters = inspect.signature(self.read).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


DATASETS: dict[str, Dataset] = {
    "csv": Dataset("tables of your own: `files`, one CSV a party, and `label`, a column", columns.read),
    "digits": Dataset("handwritten digits of 8 x 8 pixels, 10 classes, needs no file", synthetic.digits),
    "synthetic": Dataset(
        "FedProx's Synthetic(alpha, beta), one model a client, needs no file", synthetic.synthetic
    ),
    "cifar10": Dataset("CIFAR-10 photographs, 10 classes", images.cifar10),
    "femnist": Dataset("LEAF's FEMNIST, characters by writer, 62 classes", images.femnist),
    "mnist": Dataset("MNIST digits by writer, 10 classes", images.mnist),
    "fashion_mnist": Dataset("Fashion-MNIST clothing, 10 classes", images.fashion_mnist),
    "pacs": Dataset("PACS, four domains of images, 7 classes", images.pacs),
    "shakespeare": Dataset("Shakespeare's plays by role, next character", text.shakespeare),
    "stackexchange": Dataset("Stack Exchange posts by user, next word", text.stackexchange),
    **{
        name: Dataset(description, partial(tabular.table, name))
        for name, description in tabular.TABLES.items()
    },
}


#: Names of data sets, ours and others; what has one of the others is a function that returns the data.
datasets: Registry[Any] = Registry("data", DATASETS, "data set", "package.module:function")


def load(
    name: str,
    *,
    clients: int | None = None,
    partition: Partitioner | Mapping[str, Any] | None = None,
    split: SplitRule | Mapping[str, Any] | None = None,
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
    part: Sequence[float] | None = None,
    **options: Any,
) -> FederatedData:
    """A data set as a federation.

    Sets that come in groups (writers, roles, users, domains) have these as clients; `clients` then takes a
    random subset of them, by the seed. The others are dealt iid to `clients` clients. `partition` and
    `split` (`InsideClients()` unless given) say otherwise, as objects or as in a study file. Files are
    looked for in `path`, or in the directory that FEDHPO_DATA names. `part`, such as (0.0, 0.7), takes only
    that part of the rows, in an order that is the same for every seed: parts that do not overlap share no
    row.

    >>> load("digits", clients=10, partition={"kind": "dirichlet", "alpha": 0.5}).clients
    10
    >>> load("synthetic", clients=4, samples=20, split={"kind": "pools", "validation": 1, "test": 1})
    <synthetic: 4 clients, train 40 rows of 2, validation 20 rows of 1, test 20 rows of 1; x (60,) float32; \
classification, 10 classes>
    """
    if not isinstance(name, str) or name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    for option in options:
        if option not in DATASETS[name].options:
            raise unknown_name(f"option of data set {name!r}", option, DATASETS[name].options)
    if clients is not None:
        check_clients(clients)
    samples = DATASETS[name].read(Request(clients, seed, path), **options)
    if part is not None:
        samples = replace(samples, rows=_part(samples, part))
    return assemble(samples, partitioner_of(samples, partition, clients), split_of(split), seed, name)


def _part(samples: Samples, part: Sequence[float]) -> Integers:
    """The rows of a part: each row of the set has a place of its own, whatever the seed draws from it."""
    given = list(part) if isinstance(part, list | tuple) else []
    if len(given) != 2 or not all(map(is_number, given)) or not 0 <= given[0] < given[1] <= 1:
        raise InputError(
            f"part={part!r}; allowed: two shares from 0 to 1 in ascending order, such as [0, 0.7]"
        )
    rows = np.arange(len(samples.y)) if samples.rows is None else samples.rows
    places = (stream(0, "part").permutation(len(samples.y))[rows] + 0.5) / len(samples.y)
    found: Integers = rows[(given[0] <= places) & (places < given[1])]
    if not len(found):
        raise InputError(f"part={part!r} of {len(rows)} rows holds none; allowed: a larger part")
    return found


def partitioner_of(
    samples: Samples, partition: Partitioner | Mapping[str, Any] | None, clients: int | None
) -> Partitioner:
    """The partition meant, as an object or as in a study file; the samples' own where none is given."""
    if partition is None:
        return samples.partition
    if isinstance(partition, Mapping):
        if clients is None and "clients" not in partition:
            clients = _usual_clients(samples)
        return partition_from_dict(partition, clients)
    own = getattr(partition, "clients", None)
    if clients is not None and own != clients:
        raise InputError(f"clients={clients}, but partition has clients={own}; give one of them, or the same")
    return partition


def _usual_clients(samples: Samples) -> int | None:
    """As many clients as without a partition of the user's own."""
    if samples.groups is None:
        return getattr(samples.partition, "clients", None)
    groups = samples.groups if samples.rows is None else samples.groups[samples.rows]
    return len(np.unique(groups))


def split_of(split: SplitRule | Mapping[str, Any] | None) -> SplitRule:
    """The split rule meant, as an object or as in a study file; `InsideClients()` where none is given."""
    if split is None:
        return InsideClients()
    return split_from_dict(split) if isinstance(split, Mapping) else split
