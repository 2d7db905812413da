"""The agreement filter: the mean of the updates of clients that went the same way as most, over all rounds so
far. The rule is ours; docs/robust.md says what it withstood.

Near the end of training honest updates hardly agree, so that one round does not tell them from updates that
were turned round: history does (Karimireddy, He and Jaggi, 2021). What is remembered is how well any two
clients agreed, the sum of their updates' cosines, where older rounds count less. The first eigenvector of
this matrix splits clients into those that pull one way and those that pull the other; most clients say
which way is right. Up to f clients on the wrong side are left out. Are these fewer, then so are clients
that in this round agree least with the others, f in all. None of the updates that remain is longer than the
median one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.direction_filter import directions
from fedhpo.aggregation.held import Updates, norm
from fedhpo.aggregation.norm_clipping import norm_clipping
from fedhpo.core.vectors import Vector

#: How much of the agreement so far is left after a round: what was 23 rounds ago counts half.
DECAY = 0.97
#: Of clients with higher numbers nothing is remembered: the memory has a number for every two clients.
MOST_CLIENTS = 1000


def agreement_filter(
    updates: Updates, hostile: int, clients: NDArray[np.int64], memory: Vector | None = None
) -> tuple[Vector, Vector]:
    """The mean of n - f updates, each shortened to the median norm of all; and the memory for the next round.

    `clients` are the senders' numbers, the order of the rows.

    >>> updates = np.array([[3, 4], [4, 3], [5, 0], [-300, -400]], np.float32)
    >>> agreement_filter(updates, 1, np.arange(4))[0].tolist()  # of the first three
    [4.0, 2.3333332538604736]
    """
    own = directions(updates)
    cosines = (own @ own.T).astype(np.float64)
    np.fill_diagonal(cosines, 0.0)
    past = _matrix(memory, clients)
    here = np.flatnonzero(clients < MOST_CLIENTS)
    place = np.ix_(clients[here], clients[here])
    agreed = cosines.copy()
    agreed[np.ix_(here, here)] += DECAY * past[place]
    past[place] = agreed[np.ix_(here, here)]
    kept = _kept(own, side_of(agreed), hostile)
    most = float(np.median([norm(update) for update in updates]))
    return norm_clipping(updates[kept], np.ones(len(kept)), most), past.astype(np.float32).ravel()


def side_of(agreed: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each client is on the side of most: the first eigenvector, turned so that most are positive.

    >>> side_of(np.array([[0, 1, -1], [1, 0, -1], [-1, -1, 0]], float)).round(2).tolist()
    [0.58, 0.58, -0.58]
    """
    first = np.linalg.eigh(agreed)[1][:, -1]
    # A tie by number goes to the larger entries, so that the sign does not depend on the solver.
    majority = np.sign(first).sum() or first.sum()
    found: NDArray[np.float64] = -first if majority < 0 else first
    return found


def _kept(own: Updates, side: NDArray[np.float64], hostile: int) -> NDArray[np.int64]:
    """The places of all but `hostile` clients, in order."""
    common = np.maximum(side, 0.0).astype(np.float32) @ own
    wrong = side < 0
    # First those on the wrong side, the farthest first; then the others, who agrees least first.
    out_first = np.lexsort((np.where(wrong, side, own @ common), ~wrong))
    return np.sort(out_first[hostile:])


def _matrix(memory: Vector | None, clients: NDArray[np.int64]) -> NDArray[np.float64]:
    """What is remembered of any two clients, with room for all of these."""
    before = np.zeros(0) if memory is None else memory.astype(np.float64)
    side = math.isqrt(len(before))
    known = clients[clients < MOST_CLIENTS]
    size = max(side, int(known.max()) + 1 if len(known) else 0)
    found = np.zeros((size, size))
    found[:side, :side] = before.reshape(side, side)
    return found
