"""What configs look like to clients that are drawn at random: many draws at once, in plain arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedhpo.protocol.federation import Floats, Ints
from fedhpo.research.advise import Pilot

#: Added to an accuracy before it is raised to the power of the bias, as in the paper.
_LEAST = 1e-4
#: So many numbers are held at a time.
_NUMBERS = 2_000_000


def observed(
    pilot: Pilot,
    members: Ints,
    sizes: Sequence[int],
    bias: float = 0.0,
    paired: bool = False,
    rng: np.random.Generator | None = None,
) -> dict[int, Floats]:
    """The mean score of each of `members`, one search a row, at so many clients drawn without replacement.

    Every client has a clock, which rings after an exponential time, the earlier the more it weighs (with
    `bias`: its accuracy to that power); the first `size` to ring are drawn. `paired` gives all configs of a
    search the same clocks.

    >>> from fedhpo.protocol.objective import Objective
    >>> pilot = Pilot(np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([1, 3]), Objective("error"), 1, "toy")
    >>> found = observed(pilot, np.array([[0, 1]]), [1, 2], rng=np.random.default_rng(0))
    >>> found[2].tolist(), float(found[1][0, 1]), float(found[1][0, 0]) in (0.0, 1.0)
    ([[0.75, 0.5]], 0.5, True)
    """
    rng = np.random.default_rng(0) if rng is None else rng
    count, width = members.shape
    found = {size: np.empty((count, width)) for size in sizes}
    step = max(1, _NUMBERS // (width * pilot.clients))
    partial = [size for size in sizes if size < pilot.clients]
    for begin in range(0, count, step) if partial else ():
        own = members[begin : begin + step]
        if partial == [1] and not bias and not paired:
            drawn = rng.integers(pilot.clients, size=own.shape)
            found[1][begin : begin + step] = pilot.values[own, drawn]
            continue
        clocks = rng.exponential(size=(len(own), 1 if paired else width, pilot.clients))
        if bias:
            clocks = clocks / _weights(pilot, bias)[own]
        order = _first(clocks, max(partial))
        if paired:
            order = np.broadcast_to(order, (len(own), width, order.shape[2]))
        weights = pilot.weights[order]
        sums = (pilot.values[own[:, :, None], order] * weights).cumsum(axis=2)
        totals = weights.cumsum(axis=2)
        for size in partial:
            found[size][begin : begin + step] = sums[..., size - 1] / totals[..., size - 1]
    for size in sizes:
        if size == pilot.clients:
            found[size] = pilot.means[members]
    return found


def rotated(pilot: Pilot, members: Ints, size: int, rng: np.random.Generator) -> Floats:
    """The mean score of each of `members` where a search asks its clients in turn, in an order of its own.

    The config at place t is scored by slot t of a rotation, see `fedhpo.privacy.rotation`.

    >>> from fedhpo.protocol.objective import Objective
    >>> pilot = Pilot(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([1, 1]), Objective("error"), 1, "toy")
    >>> rotated(pilot, np.array([[0, 1]]), 1, np.random.default_rng(0)).sum()  # each client once
    np.float64(1.0)
    """
    count, width = members.shape
    slots = (np.arange(width)[:, None] * size + np.arange(size)) % pilot.clients
    found = np.empty((count, width))
    step = max(1, _NUMBERS // (width * size))
    for begin in range(0, count, step):
        own = members[begin : begin + step]
        order = rng.permuted(np.tile(np.arange(pilot.clients), (len(own), 1)), axis=1)
        asked = order[:, slots]
        weights = pilot.weights[asked]
        sums = (pilot.values[own[:, :, None], asked] * weights).sum(axis=2)
        found[begin : begin + step] = sums / weights.sum(axis=2)
    return found


def _first(clocks: Floats, size: int) -> Ints:
    """Which clocks ring first, in their order."""
    if size >= clocks.shape[2] // 4:
        found: Ints = np.argsort(clocks, axis=2)[..., :size]
        return found
    early = np.argpartition(clocks, size, axis=2)[..., :size]
    order = np.argsort(np.take_along_axis(clocks, early, axis=2), axis=2)
    ordered: Ints = np.take_along_axis(early, order, axis=2)
    return ordered


def _weights(pilot: Pilot, bias: float) -> Floats:
    accuracy = pilot.values if pilot.objective.maximise else 1 - pilot.values
    found: Floats = (accuracy + _LEAST) ** bias
    return found
