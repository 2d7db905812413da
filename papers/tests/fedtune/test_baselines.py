"""What FedTune is compared with."""

from functools import partial

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods.fedtune import Cells, ProxySet, Simulator
from fedhpo_papers.fedtune.baselines import Quadratic, hand_tuned, iterations_by_hand, iterations_globally

SIMULATE = partial(fh.simulate, "linear", workers=0)


def config(lr):
    return fh.Config(client={"lr": lr, "batch_size": 8})


@pytest.fixture(scope="module")
def proxies():
    return ProxySet.of(fh.load("digits"), 200).federation(Cells((0.2, 0.9), (40,)), clients=3)


def test_the_quadratic_is_the_least_squares_one():
    points = [(0.0, 0.01), (0.2, 0.03), (0.6, 0.05), (1.0, 0.04)]
    rule = Quadratic.through(points, {"epochs": 2}, 0.002, 0.8)
    a = np.vander([i for i, _ in points], 3)
    solved = np.linalg.lstsq(a, np.array([lr for _, lr in points]), rcond=None)[0]
    assert rule.coefficients == pytest.approx(tuple(solved))
    assert rule.lr(0.36) == pytest.approx(float(np.polyval(solved, 0.36)))
    assert Quadratic((0.0, 0.0, -1.0), {}, 0.002, 0.8).lr(0.5) == 0.002
    labels = np.array([0, 1, 1, 4])  # 3 of 5 classes: index 0.5
    assert rule.resolve(labels, 5) == {"epochs": 2, "lr": rule.lr(0.5)}
    with pytest.raises(InputError, match="at least 3 indices"):
        Quadratic.through([(0.1, 1.0), (0.2, 2.0), (0.2, 3.0)], {}, 0.0, 1.0)


def test_hand_tuning_takes_the_best_of_the_grid_for_each_client(proxies):
    configs = [config(lr) for lr in (1e-4, 0.2, 1e45)]
    with SIMULATE(proxies.data) as federation:
        simulator = Simulator(federation, [[0], [4]], proxies.scorer, 2, 1)
        assert hand_tuned(simulator, configs) == [configs[1]] * 2
    # 20 rounds alone for each client and config; 100 rounds of a tenth of the clients.
    assert iterations_by_hand(50, 3) == 3000
    assert iterations_globally(50, 3) == 1500
