"""FedEx with a distribution for each hyperparameter, and how many arms were ever tried."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods.fedex import policy as fedex
from fedhpo.methods.fedex.grid import grid_of
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.state import FedExState
from fedhpo.protocol.federation import RoundReport, Status
from fedhpo.testing import ToyFederation

SPACE = fh.Space(
    client={"lr": fh.Float(1e-3, 10.0, log=True), "batch_size": fh.Ordinal([8, 16, 32])}, server={"lr": 1.0}
)


def report(after, number=1):
    count = len(after)
    ones, ok = np.ones(count, np.int64), np.full(count, Status.OK, np.int8)
    before, nothing = np.ones(count), np.full(count, np.nan)
    cohort = np.arange(count)
    return RoundReport(0, number, True, cohort, ok, ones, ones, before, np.array(after), nothing, nothing, {})


def test_each_hyperparameter_learns_as_if_its_values_were_arms():
    """The same draws and scores move the weights of lr's values as those of FedEx with these as arms."""
    settings = fedex.FedEx(grid={"lr": [0.01, 1.0], "batch_size": [8]})
    state = settings.begin(SPACE.default(), SPACE, np.random.default_rng(0))
    alone = FedExState(settings, LearnedPolicy.uniform([{"lr": lr} for lr in (0.1, 0.01, 1.0)]))
    given = state.assign(range(6), np.random.default_rng(1))
    drawn = alone.assign(range(6), np.random.default_rng(1))
    assert [one["lr"] for one in given] == [one["lr"] for one in drawn]
    assert {one["batch_size"] for one in given} <= {16, 8}
    scores = np.random.default_rng(2).random(6)
    state.learn(report(scores))
    alone.learn(report(scores))
    np.testing.assert_allclose(state.parts["lr"].weights, alone.weights)


def test_it_finds_the_better_value_of_each():
    """Rates near 0.1 train fastest on the toy; the size of a batch does not matter there."""
    method = fh.FedEx(schedule="fixed", trials=1, grid={"lr": [0.001, 1.0, 0.1]}, steps="auto")
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=10.0)})
    result = fh.tune(ToyFederation(noise=0.01), space, method, rounds=30, total=30, cohort=8)
    assert result.best_config.client["lr"] == 0.1
    [policy] = result.facts["policies"]
    assert set(policy["grid"]) == {"lr"}


def test_a_number_draws_values_near_the_configs_own():
    found = grid_of(SPACE.default(), SPACE, 5, 0.1, np.random.default_rng(0))
    assert found["lr"][0] == 0.1
    assert len(found["lr"]) == 5
    assert all(0.1 / 10**0.4 <= lr <= 0.1 * 10**0.4 for lr in found["lr"])
    assert set(found["batch_size"]) <= {8, 16, 32}


def test_mistakes_are_named():
    with pytest.raises(fh.InputError, match="grid must be a whole number of at least 2, not 1"):
        fh.FedEx(grid=1)
    with pytest.raises(fh.InputError, match=r"grid: lr must be a list of values, not 0\.1"):
        fh.FedEx(grid={"lr": 0.1})
    with pytest.raises(fh.InputError, match="landmarks goes with arms, not with a grid"):
        fh.FedEx(grid=3, landmarks=2)
    state = fedex.FedEx(grid={"rate": [0.1]})
    with pytest.raises(fh.InputError, match="unknown client hyperparameter in grid 'rate'"):
        state.begin(SPACE.default(), SPACE, np.random.default_rng(0))
    with pytest.raises(fh.InputError, match=r"99\.0"):
        fedex.FedEx(grid={"lr": [99.0]}).begin(SPACE.default(), SPACE, np.random.default_rng(0))
    conditional = fh.Space(
        client={"rule": fh.Choice(["a", "b"]), "mu": fh.Float(0.0, 1.0, when={"client.rule": "b"})}
    )
    with pytest.raises(fh.InputError, match="goes with another hyperparameter"):
        fedex.FedEx(grid=3).begin(conditional.default(), conditional, np.random.default_rng(0))


def test_arms_ever_tried_are_counted():
    """27 arms, 3 rounds of 4 clients: what was drawn, counted by hand from the history."""
    method = fh.FedEx(schedule="fixed", trials=1)
    result = fh.tune(ToyFederation(), SPACE, method, rounds=3, total=3, cohort=4)
    [policy] = result.facts["policies"]
    drawn = [arm for one in policy["rounds"] for arm in one["drawn"]]
    assert policy["counts"] == [drawn.count(arm) for arm in range(27)]
    assert policy["tried"] == len(set(drawn)) <= 12
