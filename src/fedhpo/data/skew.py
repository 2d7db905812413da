"""FedTune's controlled heterogeneity: heterogeneity index, Gaussian and Poisson skew.

Paper: "Demystifying hyperparameter optimization in federated learning" (FedTune), sections 2 and G.2.
The paper names Gaussian and Poisson "distribution sampling (for both quantity and distribution
heterogeneity)" and says no more; what is meant by them here is said in each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings, is_number
from fedhpo.data.by_class import by_class, check_enough, deal
from fedhpo.data.container import Array, Floats, Integers, Split
from fedhpo.data.partition import check_clients


def classes_for(index: float, classes: int) -> int:
    """How many classes a client must hold for a heterogeneity index, as near as whole classes allow.

    >>> [classes_for(index, 10) for index in (0.0, 0.2, 0.8, 1.0)]
    [10, 8, 3, 1]
    """
    return int(np.floor(1 + (1 - index) * (classes - 1) + 0.5))


def index_of(held: Array, classes: int) -> Floats:
    """HI(c) = 1 - (c - 1) / (c_max - 1): 0 for all classes, 1 for a single one."""
    return np.asarray(1 - (np.asarray(held) - 1) / max(classes - 1, 1), dtype=np.float64)


@dataclass(frozen=True)
class HeterogeneityIndex:
    """Every client holds exactly `quantity` rows of exactly c classes, c from the wanted index.

    Lists are crossed and cycled over the clients, the index fastest: 4 indices and 6 quantities make
    the paper's 24 groups. The c classes of a client are drawn by how many rows they have left, and the
    quantity is spread evenly over them as far as they reach. Rows are drawn without replacement; with
    `replace`, once they do not suffice, clients share rows (a client never holds a row twice).
    """

    clients: int
    index: float | Sequence[float]
    quantity: int | Sequence[int]
    replace: bool = False

    def __post_init__(self) -> None:
        check_clients(self.clients)
        indices, quantities = _items(self.index), _items(self.quantity)
        if len(indices) == 0 or not ((indices >= 0) & (indices <= 1)).all():
            raise InputError(f"index={self.index!r}; allowed: numbers from 0 to 1")
        if len(quantities) == 0 or (quantities < 1).any() or (quantities % 1 != 0).any():
            raise InputError(f"quantity={self.quantity!r}; allowed: whole numbers of at least 1")
        check_settings(self)

    def wanted(self) -> tuple[Floats, Integers]:
        """Index and quantity of each client.

        >>> HeterogeneityIndex(clients=5, index=[0.2, 0.8], quantity=[100, 400]).wanted()
        (array([0.2, 0.8, 0.2, 0.8, 0.2]), array([100, 100, 400, 400, 100]))
        """
        indices, quantities = _items(self.index), _items(self.quantity).astype(np.int64)
        client = np.arange(self.clients)
        return indices[client % len(indices)], quantities[client // len(indices) % len(quantities)]

    def attained(self, classes: int) -> Floats:
        """The index that each client really has, since classes are whole.

        >>> HeterogeneityIndex(clients=2, index=[0.2, 0.8], quantity=100).attained(classes=10).round(3)
        array([0.222, 0.778])
        """
        held = [classes_for(index, classes) for index in self.wanted()[0]]
        return index_of(np.array(held), classes)

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split:
        pool = by_class(labels, rng)
        indices, quantities = self.wanted()
        held = np.array([classes_for(index, pool.clients) for index in indices])
        if (held > quantities).any():
            client = int((held > quantities).argmax())
            raise InputError(
                f"client {client}: quantity={quantities[client]} is too small for the {held[client]} classes "
                f"that index={indices[client]} needs"
            )
        used = np.zeros(pool.clients, dtype=np.int64)
        starts = np.zeros((self.clients, pool.clients), dtype=np.int64)
        counts = np.zeros_like(starts)
        # Those that want most of each class choose first, while classes are full.
        for client in np.lexsort((rng.random(self.clients), -quantities / held)):
            room = np.maximum(pool.sizes - used, 0)
            chosen = _choose(room, held[client], quantities[client], rng)
            if chosen is None and self.replace:
                room = pool.sizes
                chosen = _choose(room, held[client], quantities[client], rng)
            if chosen is None:
                raise InputError(
                    f"client {client} wants quantity={quantities[client]} rows of {held[client]} classes, "
                    f"but only {room.sum()} of {len(labels)} rows are left; "
                    "take fewer clients, smaller quantities or replace=True"
                )
            starts[client] = used
            counts[client, chosen] = spread(quantities[client], room[chosen])
            used += counts[client]
        # Each class goes round and round its rows, so that those used least come first.
        kind = np.repeat(np.tile(np.arange(pool.clients), self.clients), counts.ravel())
        places = Split.from_sizes(kind, counts.ravel()).places
        turn = np.repeat(starts.ravel(), counts.ravel()) + places
        return Split.from_sizes(pool.indices[pool.offsets[kind] + turn % pool.sizes[kind]], quantities)


def _items(value: object) -> Floats:
    """The numbers of a number or a list; none if it is neither."""
    try:
        items = np.atleast_1d(np.asarray(value))
    except (TypeError, ValueError):  # lists of different lengths, say
        return np.empty(0)
    return items.astype(np.float64) if items.ndim == 1 and items.dtype.kind in "iuf" else np.empty(0)


def _choose(room: Integers, held: int, quantity: int, rng: np.random.Generator) -> Integers | None:
    """`held` classes with room for `quantity` rows, at least one of each; None if there are none."""
    if np.count_nonzero(room) < held:
        return None
    # An even spread over random classes if these allow it, the fullest classes otherwise.
    roomy = np.where(room >= -(-quantity // held), room, 0)
    if np.count_nonzero(roomy) >= held:
        # The least of exponential waiting times: a draw by weight, without replacement.
        with np.errstate(divide="ignore"):
            return np.argsort(rng.standard_exponential(len(room)) / roomy)[:held]
    fullest = np.argsort(-room, kind="stable")[:held]
    return fullest if room[fullest].sum() >= quantity else None


def spread(quantity: int, room: Integers) -> Integers:
    """`quantity` over classes as evenly as their room allows.

    >>> spread(10, np.array([9, 2, 9]))
    array([4, 2, 4])
    """
    counts = np.zeros(len(room), dtype=np.int64)
    while (rest := quantity - int(counts.sum())) > 0:
        open_ = np.flatnonzero(counts < room)
        step = rest // len(open_)
        if step == 0:
            counts[open_[:rest]] += 1
        else:
            counts[open_] = np.minimum(counts[open_] + step, room[open_])
    return counts


@dataclass(frozen=True)
class GaussianSkew:
    """Sizes and classes by normal distributions.

    A client's size is N(quantity, (deviation x quantity)^2), its class mix a normal density of standard
    deviation `spread` (in classes) around a class of its own, classes being arranged in a circle.
    `quantity` None shares out all rows. Sizes that exceed the data in sum are scaled down to fit.
    """

    clients: int
    spread: float = 1.0
    quantity: float | None = None
    deviation: float = 0.3

    def __post_init__(self) -> None:
        check_clients(self.clients)
        if not (is_number(self.spread) and self.spread > 0):
            raise InputError(f"spread={self.spread!r}; allowed: a number above 0, in classes")
        if not (is_number(self.deviation) and self.deviation >= 0):
            raise InputError(f"deviation={self.deviation!r}; allowed: 0 or more, a share of the quantity")
        _check_quantity(self.quantity)
        check_settings(self)

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split:
        mean = _mean_quantity(self.quantity, len(labels), self.clients)
        sizes = _fit(rng.normal(mean, self.deviation * mean, self.clients), len(labels))
        steps = _steps_from_own_class(labels, self.clients, rng)
        around = np.minimum(steps, steps.max() + 1 - steps)
        return deal(labels, sizes, np.exp(-0.5 * (around / self.spread) ** 2), rng)


@dataclass(frozen=True)
class PoissonSkew:
    """Sizes and classes by Poisson distributions.

    A client's size is Poisson(quantity); its classes lie Poisson(rate) steps after a class of its own,
    classes being arranged in a circle (steps beyond one turn are cut off). `quantity` as for `GaussianSkew`.
    """

    clients: int
    rate: float = 1.0
    quantity: float | None = None

    def __post_init__(self) -> None:
        check_clients(self.clients)
        if not (is_number(self.rate) and self.rate >= 0):
            raise InputError(f"rate={self.rate!r}; allowed: 0 or more, in classes")
        _check_quantity(self.quantity)
        check_settings(self)

    def __call__(self, labels: Array, rng: np.random.Generator, groups: Integers | None = None) -> Split:
        from scipy.special import gammaln, xlogy

        mean = _mean_quantity(self.quantity, len(labels), self.clients)
        sizes = _fit(rng.poisson(mean, self.clients), len(labels))
        steps = _steps_from_own_class(labels, self.clients, rng)
        density = np.exp(xlogy(steps, self.rate) - self.rate - gammaln(steps + 1))
        return deal(labels, sizes, density, rng)


def _check_quantity(quantity: object) -> None:
    if quantity is not None and not (is_number(quantity) and quantity >= 1):  # type: ignore[operator]
        raise InputError(f"quantity={quantity!r}; allowed: at least 1 row a client, or None")


def _mean_quantity(quantity: float | None, rows: int, clients: int) -> float:
    check_enough(rows, clients)
    if quantity is None:
        return rows / clients
    if not is_number(quantity) or quantity < 1 or quantity * clients > rows:
        raise InputError(
            f"quantity={quantity!r}; allowed: from 1 to {rows / clients:g} ({rows} rows, {clients} clients)"
        )
    return quantity


def _fit(sizes: Array, rows: int) -> Integers:
    """Whole sizes of at least 1 whose sum is at most `rows`."""
    whole = np.maximum(np.rint(sizes), 1).astype(np.int64)
    excess = int(whole.sum()) - rows
    if excess > 0:
        # Keep 1 row for each, scale the rest.
        more = whole - 1
        whole = 1 + np.floor(more * ((more.sum() - excess) / more.sum())).astype(np.int64)
    return whole


def _steps_from_own_class(labels: Array, clients: int, rng: np.random.Generator) -> Integers:
    """For each client a random class, and how many steps after it each class comes in the circle."""
    classes = len(np.unique(labels))
    own = rng.integers(classes, size=(clients, 1))
    return (np.arange(classes) - own) % classes
