"""Gaussian-process regression: Matern-5/2 kernel with one length scale per hyperparameter.

Values are standardised and have mean 0; each has a noise variance that is known, plus one that is fitted.
Length scales, signal and noise maximise the marginal likelihood times weak priors (Rasmussen and Williams,
2006, chapter 5).

A fit costs the cube of the number of observations, some eighty times. Beyond `_FEW` of them the starts see
a part, and only the best end goes on with more: the likelihood of hundreds of points has one clear maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedhpo.surrogates.cube import Floats

#: A context for all that is done with a process: its matrices are small, threads would wait more than work.
one_thread = partial(threadpool_limits, 1, user_api="blas")

_ROOT_FIVE = math.sqrt(5.0)
_JITTER = 1e-8
#: Up to so many observations every start sees all of them; the last descent sees at most `_MANY`.
_FEW, _MANY = 150, 500

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
        factor, weights = self._solved
        across = self.kernel.between(features, self.features, self.owners)
        half = scipy.linalg.solve_triangular(factor, across.T, lower=True)
        prior = self.kernel.between(features, features, self.owners)
        return across @ weights, prior - half.T @ half

    def marginals(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation at each of many points."""
        factor, weights = self._solved
        across = self.kernel.between(features, self.features, self.owners)
        half = scipy.linalg.solve_triangular(factor, across.T, lower=True)
        variance = self.kernel.signal - (half * half).sum(axis=0)
        return across @ weights, np.sqrt(np.maximum(variance, 1e-12))

    @cached_property
    def _solved(self) -> tuple[Floats, Floats]:
        """The Cholesky factor of the observations' covariance, and its solution for their values."""
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
    priors = [_SCALE] * axes + [_SIGNAL, noise_prior]
    mean, spread = np.array(priors).T
    bounds = [tuple(map(math.log, _BOUNDS.get(prior, _NOISE_BOUNDS))) for prior in priors]

    def end(begin: Floats, part: slice | NDArray[np.int64]) -> Any:
        """Where a descent of the loss of some observations ends."""
        if len(values[part]) > _FEW:
            likelihood = partial(_likelihood_of_many, features=features[part], owners=owners)
        else:
            likelihood = partial(_negative_likelihood, squares=_squares(features[part], owners))

        def loss(logs: Floats) -> tuple[float, Floats]:
            off = (logs - mean) / spread
            value, slope = likelihood(logs, values=values[part], noise=noise[part])
            return value + 0.5 * float(off @ off), slope + off / spread

        return scipy.optimize.minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds)

    begins = [mean, *(mean + spread * rng.uniform(-1, 1, len(mean)) for _ in range(starts - 1))]
    count, few = len(values), slice(None)
    order = rng.permutation(count) if count > _FEW else None
    found = min(
        (end(begin, few if order is None else order[:_FEW]) for begin in begins),
        key=lambda one: float(one.fun),
    )
    if order is not None:
        found = end(found.x, order[:_MANY])
    best = np.exp(found.x)
    return Kernel(best[:-2], float(best[-2]), float(best[-1]))


def _squares(features: Floats, owners: NDArray[np.int64]) -> Floats:
    """For each hyperparameter, the squared distance of any two observations."""
    squares = np.zeros((int(owners.max()) + 1, len(features), len(features)))
    for column, owner in enumerate(owners):
        squares[owner] += (features[:, [column]] - features[:, column]) ** 2
    return squares


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


def _likelihood_of_many(
    logs: Floats, features: Floats, owners: NDArray[np.int64], values: Floats, noise: Floats
) -> tuple[float, Floats]:
    """The same without a square matrix for each hyperparameter; the inverse comes from the factor."""
    count, diagonal = len(values), np.diag_indices(len(values))
    inverse = np.exp(-2 * logs[:-2])
    signal, fitted = np.exp(logs[-2:])
    scaled = features * np.sqrt(inverse[owners])
    norms = np.square(scaled).sum(axis=1)
    squares = scaled @ scaled.T
    squares *= -2
    squares += norms[:, None]
    squares += norms
    np.maximum(squares, 0.0, out=squares)
    squares[diagonal] = 0.0
    r = np.sqrt(squares, out=squares)
    r *= _ROOT_FIVE
    fall = np.exp(-r)
    fall *= signal
    steep = (1 + r) * fall  # the kernel's slope but for 5/3 r^2 / 5
    clean = r * r
    clean *= fall
    clean /= 3
    clean += steep
    covariance = clean.copy()
    covariance[diagonal] += noise + fitted + _JITTER
    factor = scipy.linalg.cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
    weights = scipy.linalg.cho_solve((factor, True), values, check_finite=False)
    value = 0.5 * values @ weights + np.log(np.diag(factor)).sum() + 0.5 * count * math.log(2 * math.pi)
    below, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
    outer = np.tril(below)
    outer += np.tril(below, -1).T
    outer -= np.outer(weights, weights)
    steep *= outer
    # Of squared differences x_i^2 + x_j^2 - 2 x_i x_j, weighted by the symmetric matrix `steep`.
    columns = 2 * (np.square(features).T @ steep.sum(axis=1)) - 2 * (features * (steep @ features)).sum(
        axis=0
    )
    slope = np.empty(len(logs))
    slope[:-2] = 0.5 * (5 / 3) * inverse * np.bincount(owners, columns, minlength=len(inverse))
    slope[-2] = 0.5 * float(np.vdot(outer, clean))
    slope[-1] = 0.5 * fitted * float(np.trace(outer))
    return float(value), slope
