"""The GP sampler: acquisition functions, noise, batches."""

import time

import numpy as np
import pytest
from mpmath import mp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from fedhpo.core.errors import InputError
from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation
from fedhpo.samplers import GP
from fedhpo.samplers.gp import fitted, standardised
from fedhpo.space import Choice, Float, Int, Space
from fedhpo.surrogates.acquisition import (
    believe,
    expected_improvement,
    improvement,
    log_improvement,
    noisy_expected_improvement,
)
from fedhpo.surrogates.cube import Cube
from fedhpo.surrogates.process import UNKNOWN, Kernel, Process, fit
from fedhpo.testing.sampler import PLANE, observed, played

NOTHING = np.empty((0, 1))


def _line(values: list[float], noise: float = 0.0) -> Process:
    features = np.linspace(0.1, 0.9, len(values))[:, None]
    kernel = Kernel(np.array([0.3]), 1.0, 1e-6)
    return Process(kernel, features, np.array([0]), np.array(values), np.full(len(values), noise))


def test_improvement_is_an_expectation() -> None:
    draws = np.random.default_rng(0).normal(0.3, 0.5, 400_000)
    expected = np.maximum(0.2 - draws, 0).mean()
    assert improvement(np.array([0.3]), np.array([0.5]), 0.2)[0] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("z", [3.0, 0.0, -0.99, -1.01, -4.0, -12.0, -40.0, -300.0])
def test_log_improvement_is_exact_far_out(z: float) -> None:
    with mp.workdps(60):
        exact = mp.log(mp.mpf(z) * mp.ncdf(z) + mp.npdf(z))
    found = log_improvement(np.array([0.0]), np.array([1.0]), z)[0]
    assert found == pytest.approx(float(exact), rel=1e-8)


def test_noisy_ei_without_noise_is_ei() -> None:
    process = _line([0.5, -0.2, -1.0, 0.4, 0.6])
    between = np.linspace(0.0, 1.0, 11)[:, None]
    plain = np.exp(expected_improvement(process, NOTHING)(between))
    noisy = noisy_expected_improvement(process, NOTHING, np.random.default_rng(0))(between)
    assert noisy == pytest.approx(plain, rel=0.05, abs=1e-3)


def test_noisy_ei_is_ei_averaged_over_what_the_scores_may_be_worth() -> None:
    process = _line([0.5, -0.2, -1.0, 0.4], noise=0.3)
    at = np.array([[0.35], [0.6]])
    found = np.mean(
        [noisy_expected_improvement(process, NOTHING, np.random.default_rng(n))(at) for n in range(20)],
        axis=0,
    )
    rng = np.random.default_rng(1)
    mean, covariance = process.posterior(process.features)
    worth = []
    for draw in rng.multivariate_normal(mean, covariance, 3000):
        clean = Process(
            Kernel(process.kernel.scales, 1.0, 1e-6), process.features, process.owners, draw, np.zeros(4)
        )
        worth.append(improvement(*clean.marginals(at), draw.min()))
    assert found == pytest.approx(np.mean(worth, axis=0), rel=0.1)


def test_pending_trials_score_their_posterior_mean() -> None:
    process, pending = _line([1.0, -1.0, 0.5]), np.array([[0.4]])
    believed = believe(process, pending)
    assert believed.values[3] == pytest.approx(process.marginals(pending)[0][0])
    assert believed.marginals(pending)[0] == pytest.approx(process.marginals(pending)[0], abs=1e-3)
    assert believed.marginals(pending)[1][0] < 0.01


@pytest.mark.parametrize("acquisition", ["ei", "noisy-ei"])
def test_a_batch_spreads(acquisition: str) -> None:
    """The second and third suggestion do not sit beside the first, where they would learn nothing."""
    rng = np.random.default_rng(2)
    configs = [PLANE.sample(rng) for _ in range(12)]
    seen = [observed(n, c, float(np.sum((PLANE.to_unit(c) - 0.6) ** 2))) for n, c in enumerate(configs)]
    asked = list(configs)
    for n in range(3):
        config = GP(acquisition).suggest(PLANE, seen, asked, np.random.default_rng(n))
        assert config is not None
        assert min(PLANE.distance(config, other) for other in asked) > 1e-3
        asked.append(config)


def test_values_are_standardised_cut_off_and_failures_are_as_bad_as_the_worst() -> None:
    values = np.array([0.0, 1.0, 2.0, 3.0, 1e9, np.inf])  # median 2.5, cut at 2.5 + 3 x 2.5 = 10
    found, noise = standardised(values, np.array([0.5, 0.0, np.nan, 0.0, 0.0, 0.0]))
    cut = np.array([0.0, 1.0, 2.0, 3.0, 10.0, 10.0])
    assert found == pytest.approx((cut - cut.mean()) / cut.std())
    assert noise == pytest.approx([(0.5 / cut.std()) ** 2, 0, 0, 0, 0, 0])
    assert standardised(np.array([2.0, 2.0]), np.zeros(2))[0].tolist() == [0.0, 0.0]


def test_a_score_is_trusted_as_far_as_its_standard_error_goes() -> None:
    """One score far out of line is followed if it is certain, and smoothed over if it is not."""
    space = Space(client={"x": Float(0, 1)})
    places = np.linspace(0.05, 0.95, 10)

    def near_outlier(error: float) -> float:
        seen = []
        for n, x in enumerate(places):
            value = -1.0 if n == 2 else (x - 0.8) ** 2
            known = error if n == 2 else 0.001
            seen.append(Observation(n, space.from_unit([x]), Score(value, known, 10, 1, value)))
        asked = [seen_one.config for seen_one in seen]
        found = [GP().suggest(space, seen, asked, np.random.default_rng(n)) for n in range(10)]
        return float(np.mean([abs(c.client["x"] - places[2]) < 0.15 for c in found if c]))

    assert near_outlier(0.001) > 0.9
    assert near_outlier(5.0) < 0.1


def test_a_smooth_function_is_solved_in_few_trials() -> None:
    space = Space(
        client={"lr": Float(1e-4, 1, log=True), "epochs": Int(1, 9)}, server={"kind": Choice(["a", "b", "c"])}
    )

    def value(config: object) -> float:
        epochs, lr, _ = space.to_unit(config)  # type: ignore[arg-type]
        return float((lr - 0.3) ** 2 + (epochs - 0.5) ** 2 + 0.2 * (config.server["kind"] != "b"))  # type: ignore[attr-defined]

    best = min(played(GP(), space, 25, value), key=value)
    assert (best.client["epochs"], best.server["kind"]) == (5, "b")
    assert value(best) < 1e-3


def test_a_suggestion_takes_less_than_150_milliseconds() -> None:
    space = Space(client={name: Float(0, 1) for name in "abcdef"})
    rng = np.random.default_rng(0)
    configs = [space.sample(rng) for _ in range(60)]
    seen = [observed(n, c, float(np.sum(space.to_unit(c) ** 2))) for n, c in enumerate(configs)]
    times = []
    for n in range(3):
        began = time.process_time()
        GP().suggest(space, seen, configs, np.random.default_rng(n))
        times.append(time.process_time() - began)
    assert min(times) < 0.15


def _noisy_line(places: np.ndarray, errors: float, seed: int) -> tuple[Space, list[Observation]]:
    """Scores of a parabola with its minimum at 0.7, each from one client, one of them far too good."""
    space = Space(client={"x": Float(0, 1)})
    rng = np.random.default_rng(seed)
    values = 0.3 + (places - 0.7) ** 2 + 0.03 * rng.normal(size=len(places))
    values[1] = 0.05
    return space, [
        Observation(n, space.from_unit([x]), Score(v, errors, 1, 1, v))
        for n, (x, v) in enumerate(zip(places, values.tolist(), strict=True))
    ]


def test_a_lucky_score_of_one_client_is_not_recommended() -> None:
    """Recommended is the lowest posterior mean; with exact scores, the best score decides."""
    places = np.linspace(0.02, 0.98, 25)
    space, seen = _noisy_line(places, np.nan, 0)
    found = GP().recommend(space, seen, range(25), np.random.default_rng(0))
    assert found is not None
    assert abs(places[found] - 0.7) < 0.2
    assert GP().recommend(space, seen, [1, 3], np.random.default_rng(0)) in (1, 3)
    exact = _noisy_line(places, 0.0, 0)[1]
    assert GP().recommend(space, exact, range(25), np.random.default_rng(0)) is None
    assert GP().recommend(space, seen[:1], [0], np.random.default_rng(0)) is None


def test_the_recommendation_is_that_of_scikit_learns_process() -> None:
    places = np.linspace(0.02, 0.98, 25)
    space, seen = _noisy_line(places, np.nan, 3)
    process = fitted(Cube(space), seen, np.random.default_rng(0))
    kernel = process.kernel
    peer = GaussianProcessRegressor(
        ConstantKernel(kernel.signal) * Matern(kernel.scales, nu=2.5),
        alpha=process.noise + kernel.noise + 1e-8,
        optimizer=None,
    ).fit(process.features, process.values)
    best = int(np.argmin(peer.predict(process.features)))
    assert GP().recommend(space, seen, range(25), np.random.default_rng(0)) == best


def test_noise_that_nobody_told_is_found() -> None:
    """Where scores are noisy the fit may say that most of the variance is noise."""
    rng = np.random.default_rng(5)
    features, owners = np.linspace(0, 1, 40)[:, None], np.array([0])
    values = np.sin(3 * features[:, 0]) + 0.7 * rng.normal(size=40)
    values = (values - values.mean()) / values.std()
    true = 0.49 / (0.49 + np.sin(3 * features[:, 0]).var())
    noisy = fit(features, owners, values, np.zeros(40), np.random.default_rng(0), noise_prior=UNKNOWN)
    assert noisy.noise == pytest.approx(true, rel=0.35)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown acquisition 'nei' .*known: ei, noisy-ei"):
        GP("nei")
    with pytest.raises(InputError, match="startup must be at least 2, not 1"):
        GP(startup=1)
