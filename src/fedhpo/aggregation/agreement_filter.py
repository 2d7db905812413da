"""The agreement filter: the mean of the updates of clients that went the same way as most, over all rounds so
far. The rule is ours; docs/robust.md says what it withstood.

Near the end of training honest updates hardly agree, so that one round does not tell them from updates that
were turned round: history does (Karimireddy, He and Jaggi, 2021). What is remembered is how well any two
clients agreed: the sum of their updates' cosines, where older rounds count less, and so do rounds of short
updates, which come when training has nearly ended and clients go their own ways. The first eigenvector of
this matrix, of all clients seen so far, splits them into those that pull one way and those that pull the
other; most clients say which way is right. Of a cohort, up to f clients on the wrong side are left out, and
nobody else. None of the updates that remain is longer than the median one.
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
#: A round counts by the square of its median norm, up to this one: the memory has single precision.
LONGEST = 1e15


def agreement_filter(
    updates: Updates, hostile: int, clients: NDArray[np.int64], memory: Vector | None = None
) -> tuple[Vector, Vector]:
    """The mean of at least n - f updates, none longer than the median one; and the memory for the next round.

    `clients` are the senders' numbers, in the order of the rows.

    >>> updates = np.array([[3, 4], [4, 3], [5, 0], [-300, -400]], np.float32)
    >>> agreement_filter(updates, 1, np.arange(4))[0].tolist()  # of the first three
    [4.0, 2.3333332538604736]
    """
    own = directions(updates)
    most = float(np.median([norm(update) for update in updates]))
    cosines = (own @ own.T).astype(np.float64)
    np.fill_diagonal(cosines, 0.0)
    agreed, rows, kept = _with_room(memory, clients)
    here = np.ix_(rows, rows)
    agreed[here] = DECAY * agreed[here] + min(most, LONGEST) ** 2 * cosines
    side = side_of(agreed)[rows]
    wrong = np.argsort(side, kind="stable")[: min(hostile, int((side < 0).sum()))]
    found = np.delete(updates, wrong, axis=0)
    return norm_clipping(found, np.ones(len(found)), most), agreed[:kept, :kept].astype(np.float32).ravel()


def side_of(agreed: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each client is on the side of most: the first eigenvector, turned so that most are positive.

    >>> side_of(np.array([[0, 1, -1], [1, 0, -1], [-1, -1, 0]], float)).round(2).tolist()
    [0.58, 0.58, -0.58]
    """
    from scipy.linalg import eigh

    last = len(agreed) - 1
    first = eigh(agreed, subset_by_index=[last, last])[1][:, 0]
    # A tie by number goes to the larger entries, so that the sign does not depend on the solver.
    majority = np.sign(first).sum() or first.sum()
    found: NDArray[np.float64] = -first if majority < 0 else first
    return found


def _with_room(
    memory: Vector | None, clients: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """How well any two clients agreed so far, the rows of these clients, and how many rows are remembered."""
    before = np.zeros(0) if memory is None else memory.astype(np.float64)
    side = math.isqrt(len(before))
    known = clients < MOST_CLIENTS
    kept = max(side, int(clients[known].max()) + 1 if known.any() else 0)
    rows = np.where(known, clients, kept + np.cumsum(~known) - 1)
    found = np.zeros((kept + int((~known).sum()),) * 2)
    found[:side, :side] = before.reshape(side, side)
    return found, rows, kept
