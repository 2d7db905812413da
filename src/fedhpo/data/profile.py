"""How uneven a federation is: size, classes, heterogeneity index and label entropy of each client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedhpo.core.errors import unknown_name
from fedhpo.data.container import IGNORE, Array, FederatedData, Floats, Integers
from fedhpo.data.skew import index_of


def heterogeneity_index(labels: Array, classes: int) -> float:
    """FedTune's HI(c) = 1 - (c - 1) / (c_max - 1) of one client, c the classes that it holds.

    >>> heterogeneity_index(np.array([3, 3, 7]), classes=5)
    0.75
    """
    return float(index_of(np.array(len(np.unique(labels))), classes))


def quantity(labels: Array) -> int:
    """How many samples a client holds."""
    return len(labels)


def label_entropy(labels: Array) -> float:
    """Entropy of a client's labels in nats: 0 for one class, log(c) for c classes in equal parts.

    >>> round(label_entropy(np.array([0, 0, 1, 1])), 4)
    0.6931
    """
    share = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-(share * np.log(share)).sum() + 0.0)


@dataclass(frozen=True, eq=False)
class Profile:
    """One entry a client; index and entropy are NaN for a client without labels, and in regression."""

    size: Integers
    classes_held: Integers
    heterogeneity_index: Floats
    entropy: Floats


def profile(data: FederatedData, split: str = "train") -> Profile:
    """The profile of every client's rows in one split ("train", "validation" or "test")."""
    if split not in ("train", "validation", "test"):
        raise unknown_name("split", split, ("train", "validation", "test"))
    rows = getattr(data, split)
    clients = data.clients
    if data.classes is None:
        none = np.full(clients, np.nan)
        return Profile(rows.sizes, np.zeros(clients, dtype=np.int64), none, none.copy())
    labels = data.y[rows.indices]
    owners = rows.owners
    if labels.ndim == 2:
        owners, labels = np.repeat(owners, labels.shape[1]), labels.ravel()
        owners, labels = owners[labels != IGNORE], labels[labels != IGNORE]
    # (client, class) pairs that occur, rather than a table of all of them: vocabularies are large.
    pairs, counts = np.unique(owners * data.classes + labels, return_counts=True)
    holder = pairs // data.classes
    held = np.bincount(holder, minlength=clients)
    total = np.bincount(holder, weights=counts, minlength=clients)
    share = counts / total[holder]
    entropy = np.bincount(holder, weights=-share * np.log(share), minlength=clients) + 0.0
    empty = held == 0
    return Profile(
        rows.sizes,
        held,
        np.where(empty, np.nan, index_of(held, data.classes)),
        np.where(empty, np.nan, entropy),
    )


def majority_share(data: FederatedData, split: str = "validation") -> float | None:
    """The share of the commonest class among all rows of a split: what a model that always says it reaches.

    >>> from fedhpo.data import from_clients
    >>> rows = np.zeros((4, 1)), np.array([0, 0, 0, 1])
    >>> majority_share(from_clients([rows], validation=0, test=0), "train")
    0.75
    """
    if data.task != "classification" or data.is_lazy:  # nobody knows before all clients are loaded
        return None
    labels = data.y[getattr(data, split).indices]
    if not len(labels):
        return None
    return float(np.bincount(labels).max() / len(labels))
