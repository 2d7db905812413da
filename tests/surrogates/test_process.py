"""Gaussian-process regression against scikit-learn's."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from fedhpo.space import Choice, Float, Int, Space
from fedhpo.surrogates.cube import Cube
from fedhpo.surrogates.process import (
    _FEW,
    _JITTER,
    Kernel,
    Process,
    _likelihood_of_many,
    _negative_likelihood,
    fit,
)

MIXED = Cube(
    Space(
        client={"lr": Float(1e-4, 1, log=True), "epochs": Int(1, 9)},
        server={"optimiser": Choice(["a", "b", "c"])},
    )
)


def _process(seed: int, count: int = 20) -> Process:
    rng = np.random.default_rng(seed)
    features, owners = MIXED.features(MIXED.snap(rng.random((count, 3))))
    kernel = Kernel(rng.uniform(0.2, 2, 3), float(rng.uniform(0.5, 2)), float(rng.uniform(1e-4, 0.1)))
    return Process(kernel, features, owners, rng.normal(size=count), rng.uniform(0, 0.3, count))


def _peer(process: Process) -> GaussianProcessRegressor:
    kernel = process.kernel
    scales = kernel.scales[process.owners]
    return GaussianProcessRegressor(
        ConstantKernel(kernel.signal) * Matern(scales, nu=2.5),
        alpha=process.noise + kernel.noise + _JITTER,
        optimizer=None,
    ).fit(process.features, process.values)


@pytest.mark.parametrize("seed", range(5))
def test_posterior_is_that_of_scikit_learn(seed: int) -> None:
    process = _process(seed)
    other, _ = MIXED.features(MIXED.snap(np.random.default_rng(100 + seed).random((15, 3))))
    mean, covariance = _peer(process).predict(other, return_cov=True)
    found = process.posterior(other)
    assert found[0] == pytest.approx(mean, abs=1e-6)
    assert found[1] == pytest.approx(covariance, abs=1e-6)
    single = process.marginals(other)
    assert single[0] == pytest.approx(mean, abs=1e-6)
    assert single[1] ** 2 == pytest.approx(np.diag(covariance), abs=1e-6)


def test_two_different_options_are_one_apart() -> None:
    features, owners = MIXED.features(np.array([[0.5, 0.5, 1 / 6], [0.5, 0.5, 5 / 6]]))
    assert np.linalg.norm(features[0] - features[1]) == pytest.approx(1)
    assert owners.tolist() == [0, 1, 2, 2, 2]


def test_likelihood_is_that_of_scikit_learn() -> None:
    process = _process(3)
    kernel = process.kernel
    squares = _squares(process)
    logs = np.log([*kernel.scales, kernel.signal, kernel.noise])
    peer = _peer(process)
    expected = peer.log_marginal_likelihood(peer.kernel_.theta)
    assert -_negative_likelihood(logs, squares, process.values, process.noise)[0] == pytest.approx(expected)


def test_slope_is_that_of_the_likelihood() -> None:
    process = _process(4)
    squares = _squares(process)
    logs = np.log([0.3, 0.8, 1.5, 1.2, 0.01])

    def value(at: np.ndarray) -> float:
        return _negative_likelihood(at, squares, process.values, process.noise)[0]

    slope = _negative_likelihood(logs, squares, process.values, process.noise)[1]
    assert slope == pytest.approx(approx_fprime(logs, value, 1e-6), rel=1e-4, abs=1e-4)


def _squares(process: Process) -> np.ndarray:
    gaps = (process.features[:, None] - process.features[None]) ** 2
    return np.stack([gaps[:, :, process.owners == owner].sum(axis=2) for owner in range(3)])


def test_fit_finds_the_kernel_that_made_the_values() -> None:
    """Two hyperparameters matter differently; scikit-learn's own fit agrees on which, and on the noise."""
    rng = np.random.default_rng(0)
    features = rng.random((80, 2))
    truth = Kernel(np.array([0.25, 5.0]), 1.0, 0.0)
    owners = np.array([0, 1])
    covariance = truth.between(features, features, owners) + 1e-8 * np.eye(80)
    values = np.linalg.cholesky(covariance) @ rng.normal(size=80) + 0.1 * rng.normal(size=80)
    found = fit(features, owners, values, np.zeros(80), rng)
    assert 0.15 < found.scales[0] < 0.5
    assert found.scales[1] > 1.5
    assert 0.005 < found.noise < 0.02
    peer = GaussianProcessRegressor(ConstantKernel() * Matern([1, 1], nu=2.5) + WhiteKernel()).fit(
        features, values
    )
    assert found.noise == pytest.approx(peer.kernel_.k2.noise_level, rel=0.2)
    assert found.scales[0] == pytest.approx(peer.kernel_.k1.k2.length_scale[0], rel=0.2)


def test_many_observations_have_the_likelihood_of_few() -> None:
    """Products of matrices give the value and the slope of the sums over squares."""
    process = _process(5, 60)
    logs = np.log([0.3, 0.8, 1.5, 1.2, 0.01])
    value, slope = _negative_likelihood(logs, _squares(process), process.values, process.noise)
    found = _likelihood_of_many(logs, process.features, process.owners, process.values, process.noise)
    assert found[0] == pytest.approx(value, rel=1e-10)
    assert found[1] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_fit_of_many_is_that_of_scikit_learn() -> None:
    """Starts on a part and one descent on all end where scikit-learn's fit of everything does."""
    rng = np.random.default_rng(1)
    features, owners, count = rng.random((2 * _FEW, 2)), np.array([0, 1]), 2 * _FEW
    truth = Kernel(np.array([0.25, 5.0]), 1.0, 0.0)
    covariance = truth.between(features, features, owners) + 1e-8 * np.eye(count)
    values = np.linalg.cholesky(covariance) @ rng.normal(size=count) + 0.1 * rng.normal(size=count)
    found = fit(features, owners, values, np.zeros(count), rng)
    peer = GaussianProcessRegressor(ConstantKernel() * Matern([1, 1], nu=2.5) + WhiteKernel()).fit(
        features, values
    )
    assert found.noise == pytest.approx(peer.kernel_.k2.noise_level, rel=0.1)
    assert found.scales[0] == pytest.approx(peer.kernel_.k1.k2.length_scale[0], rel=0.1)
