"""Parzen estimators: densities relative to the prior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, truncnorm

from fedhpo.samplers._parzen import Parzen, bandwidths
from fedhpo.space import Choice, Float, Int, Ordinal, Space
from fedhpo.surrogates.cube import Cube, cells, edges

LINE = Cube(Space(client={"x": Float(0, 1)}))
COUNTED = Cube(Space(client={"n": Int(1, 5)}))
LISTED = Cube(Space(client={"kind": Choice(["a", "b", "c"])}))
PAIR = Cube(
    Space(client={"x": Float(0, 1, when={"model.kind": "a"})}, model={"kind": Choice(["a", "b"])})
)  # the order of the cube: x, kind


def test_bandwidth_is_the_farther_neighbour_clipped_from_below() -> None:
    assert bandwidths(np.array([0.9, 0.1, 0.2])).tolist() == pytest.approx([0.7, 0.2, 0.7])
    assert bandwidths(np.array([0.3])).tolist() == [0.7]
    assert bandwidths(np.array([0.5, 0.5])).tolist() == [0.25, 0.25]  # 1 / (2 + 2)


def test_density_is_the_mean_of_the_prior_and_truncated_normals() -> None:
    points = np.array([[0.2], [0.6]])
    found = Parzen(LINE, points).density(np.array([[0.3], [1.0]]))[:, 0]

    def normal(x: float, centre: float) -> float:
        width = 0.4
        return float(truncnorm.pdf(x, -centre / width, (1 - centre) / width, centre, width))

    expected = [(1 + normal(x, 0.2) + normal(x, 0.6)) / 3 for x in (0.3, 1.0)]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.floats(0, 1), min_size=0, max_size=8))
def test_density_integrates_to_one(centres: list[float]) -> None:
    parzen = Parzen(LINE, np.array(centres).reshape(-1, 1))
    total, _ = quad(lambda x: parzen.density(np.array([[x]]))[0, 0], 0, 1, limit=200)
    assert total == pytest.approx(1, abs=1e-6)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.booleans())
def test_discrete_densities_sum_to_one_over_their_cells(values: list[int], log: bool) -> None:
    axis = Int(1, 30, log=log)
    cube = Cube(Space(client={"n": axis}))
    units = np.array([axis.to_unit(v) for v in range(1, 31)])
    low, high = edges(axis, units)
    parzen = Parzen(cube, np.array([[axis.to_unit(v)] for v in values]))
    assert parzen.density(units[:, None])[:, 0] @ (high - low) == pytest.approx(1)


def test_choices_are_smoothed() -> None:
    # Two points at "a": kernels ((1 + 1/3), 1/3, 1/3) / 2, the prior (1, 1, 1) / 3; times 3 options.
    found = Parzen(LISTED, np.full((2, 1), 1 / 6)).density(np.array([[1 / 6], [0.5], [5 / 6]]))[:, 0]
    assert found.tolist() == pytest.approx([(2 * 2 + 1) / 3, (2 * 0.5 + 1) / 3, (2 * 0.5 + 1) / 3])


def test_a_hyperparameter_is_fitted_where_it_is_active() -> None:
    active, inactive = [0.1, 0.25], [0.5, 0.75]
    alone = Parzen(LINE, np.array([[0.1]])).density(np.array([[0.15]]))[0, 0]
    both = Parzen(PAIR, np.array([active, inactive]))
    assert both.density(np.array([[0.15, 0.25]]))[0, 0] == pytest.approx(alone)


def test_multivariate_kernels_are_products_over_active_hyperparameters() -> None:
    parzen = Parzen(PAIR, np.array([[0.1, 0.25], [0.5, 0.75]]), multivariate=True)
    width = 0.9
    normal = truncnorm.pdf(0.15, -0.1 / width, 0.9 / width, 0.1, width)
    own, other = 2 * (4 / 3) / (5 / 3), 2 * (1 / 3) / (5 / 3)
    at_a, at_b = parzen.density(np.array([[0.15, 0.25], [0.5, 0.75]]))[:, 0]
    assert at_a == pytest.approx((1 + normal * own + 1 * other) / 3)
    assert at_b == pytest.approx((1 + other + own) / 3)  # x is not active there


@pytest.mark.parametrize("multivariate", [False, True])
def test_draws_follow_the_density(multivariate: bool) -> None:
    parzen = Parzen(LINE, np.array([[0.2], [0.25], [0.9]]), multivariate)
    drawn = parzen.draw(4000, np.random.default_rng(0))[:, 0]
    grid = np.linspace(0, 1, 2001)
    reached = np.cumsum(parzen.density(grid[:, None])[:, 0]) / 2001
    assert kstest(drawn, lambda x: np.interp(x, grid, reached)).pvalue > 0.01
    options = Parzen(LISTED, np.array([[1 / 6], [1 / 6], [0.5]]), multivariate)
    counts = np.bincount(cells(LISTED.axes[0], options.draw(6000, np.random.default_rng(0))[:, 0])) / 6000
    expected = options.density(np.array([[1 / 6], [0.5], [5 / 6]]))[:, 0] / 3
    assert counts == pytest.approx(expected, abs=0.02)


def test_an_empty_estimator_is_the_prior() -> None:
    parzen = Parzen(COUNTED, np.empty((0, 1)))
    assert parzen.density(np.array([[0.1], [0.9]])).tolist() == [[1.0], [1.0]]
    assert kstest(parzen.draw(2000, np.random.default_rng(1))[:, 0], "uniform").pvalue > 0.01


@given(st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_snapped_points_are_those_of_their_configs(units: list[float]) -> None:
    space = Space(
        client={
            "x": Float(0, 1, when={"client.n": [1, 2]}),
            "n": Int(1, 30, log=True),
            "m": Ordinal([8, 16, 32], when={"server.kind": "a"}),
        },
        server={"kind": Choice(["a", "b"]), "y": Float(0, 1)},
    )
    cube, point = Cube(space), np.array(units)
    config = space.from_unit(point)
    snapped = cube.snap(point[None])[0]
    assert snapped == pytest.approx(space.to_unit(config), abs=1e-11)
    assert [name in config.flat() for name in space.names] == cube.active(point[None])[0].tolist()
