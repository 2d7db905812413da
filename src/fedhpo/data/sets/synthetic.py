"""Sets that need no file: scikit-learn's digits, and FedProx's Synthetic(alpha, beta).

Synthetic is that of "Federated optimization in heterogeneous networks" (Li et al., 2020), as generated
by its authors' code and by LEAF: a softmax model of its own for each client.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number
from fedhpo.data.container import Integers, Split
from fedhpo.data.partition import IID
from fedhpo.data.samples import Samples
from fedhpo.data.sets.request import Request

_CHUNK = 1000
"""Clients generated together; part of the definition, for the generator's stream depends on it."""


def digits(request: Request, *, image: bool = False) -> Samples:
    """1,797 digits of 8 x 8 pixels in 0..1, 10 classes; `image` gives (1, 8, 8) instead of (64,)."""
    rows = _digits_file()
    x, y = (rows[:, :64] / 16).astype(np.float32), rows[:, 64]
    return Samples(
        x=x.reshape(-1, 1, 8, 8) if image else x,
        y=y.astype(np.int64),
        task="classification",
        classes=10,
        partition=IID(request.clients or 50),
    )


def _digits_file() -> NDArray[np.float64]:
    """Pixels and digits as scikit-learn ships them; to import its data sets takes longer than a first run."""
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    with gzip.open(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        return np.array([line.split(",") for line in file], dtype=np.float64)


def synthetic(
    request: Request,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    dimension: int = 60,
    classes: int = 10,
    iid: bool = False,
    samples: int | Sequence[int] | None = None,
) -> Samples:
    """Synthetic(alpha, beta): alpha is how much models differ, beta how much features do.

    Client k has W, b ~ N(u_k, 1), u_k ~ N(0, alpha); x ~ N(v_k, diag(j^-1.2)), v_k ~ N(B_k, 1),
    B_k ~ N(0, beta) (alpha and beta are standard deviations, as in the authors' code); y = argmax(Wx + b).
    With `iid`, all share one W, b ~ N(0, 1), and v_k = B_k. Sizes are floor(lognormal(4, 2)) + 50;
    `samples` fixes them (a number) or bounds them (a pair).
    """
    if not (alpha >= 0 and beta >= 0):
        raise InputError(f"alpha={alpha!r}, beta={beta!r}; allowed: 0 or more")
    whole_number("dimension", dimension)
    whole_number("classes", classes, least=2)
    clients = request.clients or 30
    rng = request.rng()
    sizes = _sizes(clients, samples, rng)
    shift = rng.normal(0, alpha, clients).astype(np.float32)
    centre = rng.normal(0, beta, clients).astype(np.float32)
    deviation = np.arange(1, dimension + 1, dtype=np.float32) ** np.float32(-0.6)  # of variance j^-1.2
    shared = rng.standard_normal((dimension + 1, classes), dtype=np.float32)

    owners = Split.from_sizes(np.empty(0, np.int64), sizes)
    x = np.empty((int(sizes.sum()), dimension), dtype=np.float32)
    y = np.empty(len(x), dtype=np.int64)
    for start in range(0, clients, _CHUNK):
        stop = min(start + _CHUNK, clients)
        first, last = owners.offsets[start], owners.offsets[stop]
        means = np.repeat(centre[start:stop, None], dimension, axis=1)
        if not iid:
            means += rng.standard_normal(means.shape, dtype=np.float32)
            models = rng.standard_normal((stop - start, dimension + 1, classes), dtype=np.float32)
            models += shift[start:stop, None, None]
        rng.standard_normal(out=x[first:last], dtype=np.float32)
        x[first:last] *= deviation
        x[first:last] += np.repeat(means, sizes[start:stop], axis=0)
        for client in range(start, stop):
            rows = slice(owners.offsets[client], owners.offsets[client + 1])
            model = shared if iid else models[client - start]
            y[rows] = (x[rows] @ model[:-1] + model[-1]).argmax(axis=1)
    return Samples(x=x, y=y, task="classification", classes=classes, groups=owners.owners)


def _sizes(clients: int, samples: int | Sequence[int] | None, rng: np.random.Generator) -> Integers:
    drawn = rng.lognormal(4, 2, clients).astype(np.int64) + 50
    if samples is None:
        return drawn
    if not isinstance(samples, Sequence):
        whole_number("samples", samples)
        return np.full(clients, samples, dtype=np.int64)
    whole = all(isinstance(number, int) for number in samples)
    if len(samples) != 2 or not whole or not 1 <= samples[0] <= samples[1]:
        raise InputError(f"samples={samples!r}; allowed: a whole number, or a pair (least, most)")
    return np.clip(drawn, samples[0], samples[1])
