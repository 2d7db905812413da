"""Rotation: which clients a release asks, so that no client is asked more often than it must.

The clients stand in one fixed order, drawn once. Slot t asks the next `size` clients in that order, and
begins again at its end: strict round-robin, which depends on no score. A fresh draw for every slot is no
rotation: with 202 slots of one client out of 100, some client is then often in 7 of them, here in 3 at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.protocol.federation import Ints


def rotation_order(clients: Sequence[int] | Ints, seed: int) -> Ints:
    """One order of the clients for the whole run.

    >>> sorted(rotation_order([4, 2, 9], seed=0).tolist())
    [2, 4, 9]
    """
    order: Ints = stream(seed, "rotation").permutation(np.sort(np.asarray(clients, dtype=np.int64)))
    return order


def slot_cohort(order: Sequence[int] | Ints, slot: int, size: int) -> Ints:
    """The `size` clients of a slot, in ascending order.

    >>> [slot_cohort([7, 5, 6], slot, 2).tolist() for slot in range(4)]
    [[5, 7], [6, 7], [5, 6], [5, 7]]
    """
    return next_clients(order, slot * size, size)


def next_clients(order: Sequence[int] | Ints, place: int, size: int) -> Ints:
    """The `size` clients from a place of the order on, in ascending order; after the last comes the first.

    >>> next_clients([7, 5, 6], 2, 2).tolist()
    [6, 7]
    """
    clients = np.asarray(order, dtype=np.int64)
    if not 1 <= size <= len(clients):
        raise InputError(f"size must be a number of clients from 1 to {len(clients)}, not {size}")
    return np.sort(clients[(place + np.arange(size)) % len(clients)])


def most_asked(slots: int, size: int, clients: int) -> int:
    """In how many of so many slots the client is that is in most of them: ceil(slots size / clients).

    >>> most_asked(202, 1, 100), most_asked(13, 20, 20)
    (3, 13)
    """
    return -(-slots * size // clients)


def weights_of_values(cohorts: Iterable[Sequence[int] | Ints]) -> Counter[int]:
    """What one release of noisy means weighs for each client: the number of its scores in it.

    There is one cohort for each mean. A client that is not asked weighs nothing. Means over one and the same
    cohort weigh their number; means over disjoint cohorts weigh 1, however many they are.

    >>> sorted(weights_of_values([[1, 2], [3, 4], [4, 5]]).items())
    [(1, 1), (2, 1), (3, 1), (4, 2), (5, 1)]
    """
    return Counter(int(client) for cohort in cohorts for client in cohort)


def weights_of_choice(cohorts: Iterable[Sequence[int] | Ints]) -> Counter[int]:
    """What one private choice weighs for each client: 1 for those asked, about however many candidates.

    The selections of `fedhpo.privacy.selection` let every candidate's value move.

    >>> sorted(weights_of_choice([[1, 2], [2, 3]]).items())
    [(1, 1), (2, 1), (3, 1)]
    """
    return Counter({int(client): 1 for cohort in cohorts for client in cohort})
