"""Expected improvement, plain and under noise; less is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy

from fedhpo.surrogates.cube import Floats, sobol
from fedhpo.surrogates.process import Process

Acquisition: TypeAlias = Callable[[Floats], Floats]

_DRAWS = 32
#: Joint draws are of at most so many points, those with the lowest posterior means.
_DRAWN = 500
_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))


def improvement(mean: Floats, deviation: Floats, best: Floats | float) -> Floats:
    """The expected improvement on `best` of a normal variable (Jones et al., 1998, Eq. 15).

    >>> improvement(np.array([0.0]), np.array([1.0]), 0.0).round(4)
    array([0.3989])
    """
    z = (best - mean) / deviation
    found: Floats = deviation * (z * scipy.special.ndtr(z) + np.exp(-0.5 * z * z) / _ROOT_TWO_PI)
    return np.maximum(found, 0.0)


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Its logarithm, which still tells points apart where the improvement itself is 0 to a computer.

    For z far below 0, z ndtr(z) + phi(z) = phi(z) (1 + z m(-z)), m being Mills' ratio (Ament et al., 2023).
    """
    z = (best - mean) / deviation
    near = np.maximum(z, -1.0)
    bulk = np.log(near * scipy.special.ndtr(near) + np.exp(-0.5 * near * near) / _ROOT_TWO_PI)
    far = np.clip(-z, 1.0, 1e3)
    ratio = np.log1p(-far * np.sqrt(np.pi / 2) * scipy.special.erfcx(far / np.sqrt(2)))
    tail = -0.5 * z * z - np.log(_ROOT_TWO_PI) + ratio
    found: Floats = np.where(z > -1, bulk, tail) + np.log(deviation)
    return found


def expected_improvement(process: Process, pending: Floats) -> Acquisition:
    """EI on the best score so far; pending trials are believed to score their posterior mean.

    (The "kriging believer" of Ginsbourger et al., 2010.) The best score is the lowest posterior mean at
    what was observed: a score that was lucky is not a mark to beat.
    """
    if len(pending):
        process = believe(process, pending)
    best = float(process.marginals(process.features)[0].min())

    def acquisition(features: Floats) -> Floats:
        mean, deviation = process.marginals(features)
        return log_improvement(mean, deviation, best)

    return acquisition


def believe(process: Process, pending: Floats) -> Process:
    """The process as if pending trials had scored their posterior mean."""
    mean, _ = process.marginals(pending)
    return Process(
        process.kernel,
        np.vstack([process.features, pending]),
        process.owners,
        np.concatenate([process.values, mean]),
        np.concatenate([process.noise, np.zeros(len(mean))]),
    )


def noisy_expected_improvement(process: Process, pending: Floats, rng: np.random.Generator) -> Acquisition:
    """EI averaged over what the observed and pending trials may truly be worth (Letham et al., 2019, Eq. 4).

    Noiseless values of them all are drawn jointly, by quasi-random numbers; for each draw EI is that of the
    noiseless process through it.
    """
    points = np.vstack([process.features, pending]) if len(pending) else process.features
    if len(points) > _DRAWN:
        points = points[np.sort(np.argsort(process.marginals(points)[0], kind="stable")[:_DRAWN])]
    mean, covariance = process.posterior(points)
    count = len(mean)
    covariance[np.diag_indices(count)] += 1e-8 * process.kernel.signal
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    uniform = sobol(count, _DRAWS, rng)
    draws = mean + scipy.special.ndtri(np.clip(uniform, 1e-9, 1 - 1e-9)) @ root.T

    prior = process.kernel.between(points, points, process.owners)
    prior[np.diag_indices(count)] += 1e-6 * process.kernel.signal
    factor = np.linalg.cholesky(prior)
    weights = scipy.linalg.cho_solve((factor, True), draws.T)
    best = draws.min(axis=1)

    def acquisition(features: Floats) -> Floats:
        across = process.kernel.between(features, points, process.owners)
        half = scipy.linalg.solve_triangular(factor, across.T, lower=True)
        variance = process.kernel.signal - (half * half).sum(axis=0)
        deviation = np.sqrt(np.maximum(variance, 1e-12))
        averaged: Floats = improvement(across @ weights, deviation[:, None], best).mean(axis=1)
        return averaged

    return acquisition
