"""Dealing rows of given classes to clients: what several partitioners share."""

from __future__ import annotations

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.data.container import Array, Floats, Integers, Split


def even_sizes(total: int, parts: int) -> Integers:
    """`total` in `parts` that differ by at most one, the larger ones first.

    >>> even_sizes(7, 3)
    array([3, 2, 2])
    """
    return total // parts + (np.arange(parts) < total % parts).astype(np.int64)


def check_enough(rows: int, clients: int, each: int = 1) -> None:
    """Every client must be able to get `each` rows."""
    if rows < clients * each:
        raise InputError(
            f"clients={clients} of at least {each} rows need {clients * each} rows, found {rows}"
        )


def by_class(labels: Array, rng: np.random.Generator) -> Split:
    """The rows of each class in random order, as if classes were clients.

    Classes are those present, in ascending order, so that labels need not be 0..n-1.
    """
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"partition by class needs one whole-number label a row, found {labels.dtype} {labels.shape}"
        )
    present, codes = np.unique(labels, return_inverse=True)
    return Split.from_owners(codes, len(present)).shuffled(rng)


def deal(labels: Array, sizes: Integers, weights: Floats, rng: np.random.Generator) -> Split:
    """Client `i` gets exactly `sizes[i]` rows, of classes drawn by `weights[i]`, without replacement.

    As in Hsu et al. (2019): where a class runs out, the rest is drawn from those that are left.
    Clients come in random order, so that what is left over falls on nobody in particular.
    """
    pool = by_class(labels, rng)
    left = pool.sizes.copy()
    counts = np.zeros((len(sizes), pool.clients), dtype=np.int64)
    for client in rng.permutation(len(sizes)):
        need = int(sizes[client])
        while need:
            wish = weights[client] * (left > 0)
            # Where no wanted class is left, take whatever there is most of.
            wish = wish if wish.sum() > 0 else left.astype(np.float64)
            drawn = np.minimum(rng.multinomial(need, wish / wish.sum()), left)
            counts[client] += drawn
            left -= drawn
            need -= int(drawn.sum())
    return take(pool, counts)


def take(pool: Split, counts: Integers) -> Split:
    """Hand out the rows of each class in order: `counts[i, j]` of class `j` to client `i`."""
    # Class by class, each row's client; rows beyond what was asked for go to nobody (-1).
    clients = len(counts)
    asked = counts.sum(axis=0)
    column = np.concatenate([counts, (pool.sizes - asked)[None]])
    owners = np.repeat(np.tile(np.append(np.arange(clients), -1), pool.clients), column.T.ravel())
    return Split.from_owners(owners, clients, pool.indices)
