"""How uneven one client's labels are: a number from 0 (all classes in equal parts) to 1 (a single class).

FedTune's profile of a client is such an index and its quantity, the number of its training rows. The paper
("Demystifying hyperparameter optimization in federated learning", section 3.1 and G.3) defines the
heterogeneity index and names Gaussian and Poisson variants; what is meant by these is said here:

- `heterogeneity_index`: 1 - (c - 1) / (c_max - 1), c the classes held;
- `entropy`: 1 - H / log(c_max), H the entropy of the labels;
- `gaussian`: classes lie in a circle; 1 - s / s_max, s the root mean square distance from the class that
  makes it least, s_max that of equal parts;
- `poisson`: the same with the mean number of steps that classes lie after a first one.

Labels of language data are tokens, padding aside, and have no circle. Targets of regression are cut into
classes at the edges that a table holds (see `fedhpo.methods.fedtune.ProxySet`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.data.container import IGNORE, Array, Floats
from fedhpo.data.profile import quantity
from fedhpo.data.skew import index_of


def _heterogeneity_index(shares: Floats) -> float:
    return float(index_of(np.array(np.count_nonzero(shares)), len(shares)))


def _entropy(shares: Floats) -> float:
    held = shares[shares > 0]
    return 1 - float(-(held * np.log(held)).sum()) / float(np.log(len(shares)))


def _gaussian(shares: Floats) -> float:
    around = distances(len(shares)).astype(np.float64) ** 2
    return 1 - float(np.sqrt((around @ shares).min() / around[0].mean()))


def _poisson(shares: Floats) -> float:
    after = steps(len(shares))
    return 1 - float((after @ shares).min() / after[0].mean())


#: From the shares of all classes to the index.
MEASURES: dict[str, Callable[[Floats], float]] = {
    "heterogeneity_index": _heterogeneity_index,
    "entropy": _entropy,
    "gaussian": _gaussian,
    "poisson": _poisson,
}
_IN_A_CIRCLE = ("gaussian", "poisson")


def check_measure(measure: str) -> None:
    """Refuse a measure that is not known."""
    if measure not in MEASURES:
        raise unknown_name("measure", measure, MEASURES)


def measured(measure: str, shares: Floats) -> float:
    """The index of a class mix; a single class in all is the most uneven there is.

    >>> measured("heterogeneity_index", np.array([0.5, 0.5, 0.0, 0.0, 0.0]))
    0.75
    """
    check_measure(measure)
    return 1.0 if len(shares) < 2 else min(1.0, max(0.0, MEASURES[measure](shares)))


def profiled(
    measure: str, labels: Array, classes: int | None, edges: Sequence[float] | None = None
) -> tuple[float, int]:
    """A client's own profile, index and quantity, from its training labels; it stays at the client.

    >>> profiled("heterogeneity_index", np.array([3, 3, 7]), classes=5)
    (0.75, 3)
    >>> profiled("heterogeneity_index", np.array([0.1, 0.2, 9.0]), classes=None, edges=(1.0, 2.0))
    (0.5, 3)
    """
    codes, classes = coded(measure, labels, classes, edges)
    if not len(codes):
        raise InputError("labels are empty: a client without training rows has no profile")
    held, counts = np.unique(codes, return_counts=True)
    if measure not in _IN_A_CIRCLE:
        # A vocabulary is large: only the classes held, and zeros for the others where they count.
        shares = np.zeros(classes)
        shares[: len(held)] = counts / counts.sum()
    else:
        shares = np.bincount(codes, minlength=classes) / len(codes)
    return measured(measure, shares), quantity(labels)


def coded(
    measure: str, labels: Array, classes: int | None, edges: Sequence[float] | None
) -> tuple[npt.NDArray[np.int64], int]:
    """Labels as numbers of classes, and how many classes there are."""
    check_measure(measure)
    if edges is not None:
        return np.searchsorted(np.asarray(edges), labels, side="right").astype(np.int64), len(edges) + 1
    if classes is None:
        raise InputError(
            f"measure {measure!r} needs classes, and regression has none: take a table with edges, as "
            "is filled from a proxy set of regression data"
        )
    if labels.ndim == 2:
        if measure in _IN_A_CIRCLE:
            raise InputError(
                f"measure {measure!r} arranges classes in a circle, which tokens have not; allowed for "
                "language: heterogeneity_index, entropy"
            )
        labels = labels[labels != IGNORE]
    return np.asarray(labels).astype(np.int64), classes


def steps(classes: int) -> npt.NDArray[np.int64]:
    """How many steps each class (columns) comes after each other (rows), in a circle."""
    return (np.arange(classes) - np.arange(classes)[:, None]) % classes


def distances(classes: int) -> npt.NDArray[np.int64]:
    """How far classes are from each other, in a circle."""
    after = steps(classes)
    return np.minimum(after, classes - after)
