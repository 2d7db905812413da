"""Points that trade several numbers off against each other; of each number less is better.

Non-dominated sorting and crowding distance are those of NSGA-II (Deb et al., 2002). As there, points that
break a constraint come after all others, those that break it least first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def fronts(points: Floats) -> Ints:
    """The front of each point: 0 where no other dominates it, 1 where only those of front 0 do, and so on.

    One point dominates another if it is nowhere worse and somewhere better.

    >>> fronts(np.array([[0.0, 2.0], [1.0, 1.0], [2.0, 2.0], [2.0, 0.0]])).tolist()
    [0, 0, 1, 0]
    """
    if points.shape[1] == 1:
        return np.unique(points[:, 0], return_inverse=True)[1].astype(np.int64)
    no_worse = np.asarray((points[:, None, :] <= points[None, :, :]).all(axis=2), np.bool_)
    better = np.asarray((points[:, None, :] < points[None, :, :]).any(axis=2), np.bool_)
    dominates = no_worse & better
    found = np.full(len(points), -1, dtype=np.int64)
    front = 0
    while (left := found < 0).any():
        found[left & ~dominates[left].any(axis=0)] = front
        front += 1
    return found


def crowding(points: Floats) -> Floats:
    """How far the neighbours of each point of one front are, over all numbers; infinite at the ends.

    >>> crowding(np.array([[0.0, 4.0], [1.0, 1.0], [4.0, 0.0]])).tolist()
    [inf, 2.0, inf]
    """
    found = np.zeros(len(points))
    for values in points.T:
        order = np.argsort(values, kind="stable")
        span = values[order[-1]] - values[order[0]]
        found[order[[0, -1]]] = np.inf
        if len(points) > 2 and span > 0:
            found[order[1:-1]] += (values[order[2:]] - values[order[:-2]]) / span
    return found


def pareto_order(points: Floats, violations: Sequence[float] | None = None) -> list[int]:
    """The places of points, the best first: by front, then by how lonely a point is in its front.

    Among those at the ends of a front the one with the least first number comes first. Points with a
    violation come last. Points must be finite.

    >>> pareto_order(np.array([[2.0, 2.0], [1.0, 1.5], [0.0, 3.0], [3.0, 0.0]]), [0, 0, 0, 1])
    [2, 1, 0, 3]
    """
    broken = np.zeros(len(points)) if violations is None else np.asarray(violations, np.float64)
    able = np.flatnonzero(broken <= 0)
    order = [(1.0, float(broken[i]), 0.0, float(points[i, 0]), int(i)) for i in np.flatnonzero(broken > 0)]
    found = fronts(points[able])
    for front in range(int(found.max(initial=-1)) + 1):
        members = able[found == front]
        lonely = crowding(points[members])
        for i, far in zip(members.tolist(), lonely.tolist(), strict=True):
            order.append((0.0, float(front), -far, float(points[i, 0]), i))
    return [row[-1] for row in sorted(order)]


def hypervolume(points: Floats, reference: Floats) -> float:
    """The volume between a reference point and what at least one point is nowhere worse than.

    >>> hypervolume(np.array([[0.0, 0.5], [0.5, 0.0], [0.9, 0.9]]), np.array([1.0, 1.0]))
    0.75
    """
    inside = points[(points < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    if inside.shape[1] == 1:
        return float(reference[0] - inside.min())
    # Slices along the last number: between two neighbours, the volume of what reaches so far.
    order = inside[np.argsort(inside[:, -1], kind="stable")]
    ends = np.append(order[1:, -1], reference[-1])
    widths = ends - order[:, -1]
    areas = [hypervolume(order[: i + 1, :-1], reference[:-1]) for i in range(len(order))]
    return float(widths @ np.array(areas))
