"""Expected improvement of the hypervolume, for two objectives; of each less is better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedhpo.core.pareto import fronts
from fedhpo.surrogates.acquisition import Acquisition, believe, improvement
from fedhpo.surrogates.cube import Floats
from fedhpo.surrogates.process import Process

#: How far beyond the worst values the reference point lies, as a share of their range.
_BEYOND = 0.1


def hypervolume_improvement(processes: Sequence[Process], pending: Floats) -> Acquisition:
    """EHVI under one process for each of two objectives (Emmerich et al., 2011).

    The front is that of the posterior means at what was observed; pending trials are believed to score
    theirs, as in `expected_improvement`.
    """
    if len(pending):
        processes = [believe(process, pending) for process in processes]
    means = np.column_stack([process.marginals(process.features)[0] for process in processes])
    reference = means.max(axis=0) + _BEYOND * np.ptp(means, axis=0)
    front = means[fronts(means) == 0]

    def acquisition(features: Floats) -> Floats:
        first, second = (process.marginals(features) for process in processes)
        return expected_gain(front, reference, first, second)

    return acquisition


def expected_gain(
    front: Floats, reference: Floats, first: tuple[Floats, Floats], second: tuple[Floats, Floats]
) -> Floats:
    """The volume that points gain over a front on average; `first` and `second` are means and deviations.

    What no point of the front reaches is cut into strips between neighbours. Of a strip, a point takes the
    width that its first value is below, times the height that its second is below. Both are independent, so
    the expectations multiply: each is the expected improvement on an edge.

    >>> front = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> sure = np.array([0.5]), np.array([1e-9])
    >>> expected_gain(front, np.array([2.0, 2.0]), sure, sure).round(6)
    array([0.25])
    """
    order = front[np.argsort(front[:, 0], kind="stable")]
    edges = np.append(order[:, 0], reference[0])
    heights = np.append(reference[1], order[:, 1])
    below = improvement(first[0][:, None], first[1][:, None], edges)
    widths = np.diff(below, axis=1, prepend=0.0)
    found: Floats = (widths * improvement(second[0][:, None], second[1][:, None], heights)).sum(axis=1)
    return found
