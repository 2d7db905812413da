"""Gaussian-process regression: Matern-5/2 kernel with one length scale per hyperparameter.

Values are standardised and have mean 0; each has a noise variance that is known, plus one that is fitted.
Length scales, signal and noise maximise the marginal likelihood times weak priors (Rasmussen and Williams,
2006, chapter 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedhpo.surrogates.cube import Floats

#: A context for all that is done with a process: its matrices are small, threads would wait more than work.
one_thread = partial(threadpool_limits, 1, user_api="blas")

_ROOT_FIVE = math.sqrt(5.0)
_JITTER = 1e-8

#: Mean and standard deviation of the priors of the logarithms, and their bounds. Length scales are in units
#: of the range of a hyperparameter, variances in units of that of the values.
_SCALE, _SIGNAL = (math.log(0.5), 1.0), (0.0, 1.0)
#: The noise beyond what is told: hardly any where that is all, else anything up to all of the variance.
KNOWN, UNKNOWN = (math.log(1e-4), 2.0), (math.log(0.03), 2.5)
_BOUNDS = {_SCALE: (0.03, 30.0), _SIGNAL: (0.05, 20.0)}
_NOISE_BOUNDS = (1e-6, 2.0)


@dataclass(frozen=True)
class Kernel:
    """Length scale of each hyperparameter, variance of the signal, variance of the fitted noise."""

    scales: Floats
    signal: float
    noise: float

    def between(self, a: Floats, b: Floats, owners: NDArray[np.int64]) -> Floats:
        """The covariance of the values at features `a` and `b`, whose columns belong to `owners`.

        >>> kernel = Kernel(np.array([1.0]), 2.0, 0.1)
        >>> kernel.between(np.array([[0.3]]), np.array([[0.3]]), np.array([0]))
        array([[2.]])
        """
        a, b = a / self.scales[owners], b / self.scales[owners]
        squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
        return self.signal * _matern(np.sqrt(np.maximum(squares, 0.0)))


def _matern(r: Floats) -> Floats:
    found: Floats = (1 + _ROOT_FIVE * r + 5 / 3 * r * r) * np.exp(-_ROOT_FIVE * r)
    return found


@dataclass(frozen=True)
class Process:
    """The process as observed: `values` at `features`, with a noise variance for each."""

    kernel: Kernel
    features: Floats
    owners: NDArray[np.int64]
    values: Floats
    noise: Floats

    def posterior(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance of the noiseless values at other points."""
        factor, weights = self._solved()
        across = self.kernel.between(features, self.features, self.owners)
        half = scipy.linalg.solve_triangular(factor, across.T, lower=True)
        prior = self.kernel.between(features, features, self.owners)
        return across @ weights, prior - half.T @ half

    def marginals(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation at each of many points."""
        factor, weights = self._solved()
        across = self.kernel.between(features, self.features, self.owners)
        half = scipy.linalg.solve_triangular(factor, across.T, lower=True)
        variance = self.kernel.signal - (half * half).sum(axis=0)
        return across @ weights, np.sqrt(np.maximum(variance, 1e-12))

    def _solved(self) -> tuple[Floats, Floats]:
        covariance = self.kernel.between(self.features, self.features, self.owners)
        covariance[np.diag_indices_from(covariance)] += self.noise + self.kernel.noise + _JITTER
        factor = scipy.linalg.cholesky(covariance, lower=True)
        return factor, scipy.linalg.cho_solve((factor, True), self.values)


def fit(
    features: Floats,
    owners: NDArray[np.int64],
    values: Floats,
    noise: Floats,
    rng: np.random.Generator,
    starts: int = 3,
    noise_prior: tuple[float, float] = KNOWN,
) -> Kernel:
    """The kernel of largest marginal likelihood, priors counted in, found from several starts.

    `noise_prior` is `KNOWN`, or `UNKNOWN` where values may be off by more than `noise` tells.
    """
    axes = int(owners.max()) + 1
    squares = np.zeros((axes, len(values), len(values)))
    for column, owner in enumerate(owners):
        squares[owner] += (features[:, [column]] - features[:, column]) ** 2
    priors = [_SCALE] * axes + [_SIGNAL, noise_prior]
    mean, spread = np.array(priors).T
    bounds = [tuple(map(math.log, _BOUNDS.get(prior, _NOISE_BOUNDS))) for prior in priors]

    def loss(logs: Floats) -> tuple[float, Floats]:
        off = (logs - mean) / spread
        value, slope = _negative_likelihood(logs, squares, values, noise)
        return value + 0.5 * float(off @ off), slope + off / spread

    begins = [mean, *(mean + spread * rng.uniform(-1, 1, len(mean)) for _ in range(starts - 1))]
    found = [
        scipy.optimize.minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds) for begin in begins
    ]
    best = np.exp(min(found, key=lambda end: float(end.fun)).x)
    return Kernel(best[:-2], float(best[-2]), float(best[-1]))


def _negative_likelihood(
    logs: Floats, squares: Floats, values: Floats, noise: Floats
) -> tuple[float, Floats]:
    """Minus the log marginal likelihood (Rasmussen and Williams, Eq. 5.8), and its slope (Eq. 5.9)."""
    count = len(values)
    inverse = np.exp(-2 * logs[:-2])
    signal, fitted = np.exp(logs[-2:])
    r = np.sqrt(np.tensordot(inverse, squares, axes=1))
    fall = np.exp(-_ROOT_FIVE * r)
    clean = signal * (1 + _ROOT_FIVE * r + 5 / 3 * r * r) * fall
    covariance = clean.copy()
    covariance[np.diag_indices(count)] += noise + fitted + _JITTER
    factor = scipy.linalg.cho_factor(covariance, lower=True, check_finite=False)
    weights = scipy.linalg.cho_solve(factor, values, check_finite=False)
    value = 0.5 * values @ weights + np.log(np.diag(factor[0])).sum() + 0.5 * count * math.log(2 * math.pi)
    outer = scipy.linalg.cho_solve(factor, np.eye(count), check_finite=False) - np.outer(weights, weights)
    # The kernel by the log of a length scale: 5/3 signal (1 + sqrt(5) r) exp(-sqrt(5) r) square / scale^2.
    common = outer * (5 / 3 * signal * (1 + _ROOT_FIVE * r) * fall)
    slope = np.empty(len(logs))
    slope[:-2] = 0.5 * inverse * np.tensordot(squares, common, axes=2)
    slope[-2] = 0.5 * float((outer * clean).sum())
    slope[-1] = 0.5 * fitted * float(np.trace(outer))
    return float(value), slope
