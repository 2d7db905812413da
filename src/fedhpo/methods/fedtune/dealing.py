"""Simulated clients with a wanted index and quantity, out of the rows of a public set.

For the heterogeneity index every client holds exactly the wanted quantity of exactly c classes (see
`fedhpo.data.HeterogeneityIndex`). For the other measures the knob of a family of class mixes is turned until
the mix has the wanted index: exp(-t k) over a random order of the classes (entropy), a normal density
around a class of the client's own (gaussian), a Poisson distribution after it (poisson; cut off after one
turn it never spreads evenly, so that an index near 0 is not reached). The quantity is exact, counts are
rounded by largest remainders, and a class that is too small leaves the rest to the others. The index
attained is reported. Clients may share rows where these do not suffice, but none holds a row twice.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

from fedhpo.core.errors import InputError
from fedhpo.data.by_class import by_class
from fedhpo.data.container import Floats, Integers, Split
from fedhpo.data.skew import HeterogeneityIndex, spread
from fedhpo.methods.fedtune.measures import measured

_KNOBS = np.geomspace(1e-3, 1e3, 1201)


def deal(
    labels: Integers, measure: str, index: float, quantity: int, clients: int, rng: np.random.Generator
) -> Split:
    """Rows (places in `labels`) of `clients` clients with this profile.

    >>> rows = deal(np.arange(1000) % 10, "heterogeneity_index", 0.8, 60, 5, np.random.default_rng(0))
    >>> rows.sizes.tolist(), [len(set(rows.rows(client) % 10)) for client in range(5)]
    ([60, 60, 60, 60, 60], [3, 3, 3, 3, 3])
    """
    if measure == "heterogeneity_index":
        return HeterogeneityIndex(clients, index, quantity, replace=True)(labels, rng)
    if quantity > len(labels):
        raise InputError(f"quantity={quantity}; allowed: at most the {len(labels)} rows that there are")
    mix = mix_for(measure, index, int(labels.max()) + 1)
    return Split.from_lists(_one_client(labels, mix, measure, quantity, rng) for _ in range(clients))


def mix_for(measure: str, index: float, classes: int) -> Floats:
    """The class mix, its first class being the client's own, whose index is nearest to the wanted one.

    >>> round(measured("entropy", mix_for("entropy", 0.4, 10)), 2)
    0.4
    """
    mixes = [_mix(measure, knob, classes) for knob in _KNOBS]
    off = [abs(measured(measure, mix) - index) for mix in mixes]
    return mixes[int(np.argmin(off))]


def _mix(measure: str, knob: float, classes: int) -> Floats:
    place = np.arange(classes)
    if measure == "entropy":
        logs = -knob * place
    elif measure == "gaussian":
        logs = -0.5 * (np.minimum(place, classes - place) / knob) ** 2
    else:
        logs = xlogy(place, knob) - gammaln(place + 1)
    raised = np.exp(logs - logs.max())
    mix: Floats = raised / raised.sum()
    return mix


def _one_client(
    labels: Integers, mix: Floats, measure: str, quantity: int, rng: np.random.Generator
) -> Integers:
    classes = len(mix)
    order = rng.permutation(classes)
    if measure != "entropy":  # neighbours in the circle stay neighbours
        order = (np.arange(classes) + rng.integers(classes)) % classes
    wanted = np.zeros(classes)
    wanted[order] = mix
    pool = by_class(labels, rng)
    present = np.unique(labels)
    counts = shared_out(quantity, wanted[present], pool.sizes)
    return np.concatenate([pool.rows(i)[:count] for i, count in enumerate(counts)])


def shared_out(quantity: int, mix: Floats, room: Integers) -> Integers:
    """`quantity` rows by the shares of a mix, rounded by largest remainders, never more than there is room.

    >>> shared_out(10, np.array([0.65, 0.35, 0.0]), np.array([9, 9, 9]))
    array([7, 3, 0])
    >>> shared_out(10, np.array([0.65, 0.35, 0.0]), np.array([4, 9, 9]))
    array([4, 6, 0])
    """
    counts = np.zeros(len(mix), dtype=np.int64)
    while (rest := quantity - int(counts.sum())) > 0:
        left = mix * (counts < room)
        if left.sum() <= 0:  # no class of the mix is left: as evenly as the others allow
            return counts + spread(rest, room - counts)
        exact = rest * left / left.sum()
        more = np.floor(exact + 1e-9).astype(np.int64)
        more[np.argsort(more - exact, kind="stable")[: rest - int(more.sum())]] += 1
        counts = np.minimum(counts + more, room)
    return counts
