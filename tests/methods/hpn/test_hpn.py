"""HPN: the network's gradient, what is known of clients, and that it finds each client's own rate."""

import math
from dataclasses import replace

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods.hpn import HPN
from fedhpo.methods.hpn.features import Features
from fedhpo.methods.hpn.network import Network
from fedhpo.policies import Fixed
from fedhpo.protocol.federation import RoundReport, Status
from fedhpo.schedules import FixedLength
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True), "rule": fh.Choice(["a", "b"])})


def report(cohort, rows, before, number=1, status=None):
    count = len(cohort)
    nothing = np.full(count, np.nan)
    status = np.array([Status.OK] * count if status is None else status, np.int8)
    sizes = np.array(rows)
    before = np.array(before, float)
    return RoundReport(
        0, number, True, np.array(cohort), status, sizes, sizes, before, before, nothing, nothing, {}
    )


# The network


def test_the_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    network = Network(3, 2, hidden=4, rng=rng)
    network.weights = [rng.normal(size=w.shape) for w in network.weights]
    inputs, outer = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    found = network.gradient(inputs, outer)
    for place, slope in enumerate(found):
        for index in np.ndindex(slope.shape):
            sides = []
            for step in (1e-6, -1e-6):
                network.weights[place][index] += step
                sides.append((network(inputs) * outer).sum())
                network.weights[place][index] -= step
            assert slope[index] == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_adams_first_step_is_the_rate_in_the_direction_of_each_slope():
    network = Network(1, 1, hidden=2, rng=np.random.default_rng(1))
    network.climb(np.ones((4, 1)), np.full((4, 1), 3.0), rate=0.1)
    assert network.weights[3] == pytest.approx([0.1])  # 3 x 4 is its slope: only the sign counts
    assert np.abs(network.weights[2]) == pytest.approx(np.full((2, 1), 0.1))


# What is known of clients


def test_features_are_standardised_over_all_clients_that_are_known():
    """Rows 10, 10, 1000 by hand: logs 1, 1, 3 (base 10) have mean 5/3 and deviation sqrt(8)/3."""
    features = Features()
    assert features.of([0, 1]).tolist() == [[0.0], [0.0]]
    features.see(report([0, 1, 2], [10, 10, 1000], [1.0, 2.0, 3.0]))
    deviation = math.sqrt(8) / 3
    assert features.of([2, 0, 9])[:, 0] == pytest.approx(
        [(3 - 5 / 3) / deviation, (1 - 5 / 3) / deviation, 0.0]
    )


def test_clients_that_do_not_reply_are_not_known():
    features = Features()
    features.see(report([0, 1], [10, 0], [1.0, np.nan], status=[Status.OK, Status.MISSING]))
    features.see(report([2], [20], [np.nan]))
    assert features.of([0, 1, 2])[:, 0] == pytest.approx([-1.0, 0.0, 1.0])


def test_encodings_take_the_place_of_reports():
    features = Features({0: [1.0, 5.0], 1: [3.0, 5.0]})
    features.see(report([0], [10], [1.0]))
    assert features.of([0, 1, 7]).tolist() == [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]


def test_mistakes_are_named():
    for settings, message in [
        ({"radius": 0.0}, r"radius must be a number in \(0, 1\], not 0.0"),
        ({"rate": -1.0}, r"rate must be a number positive, not -1.0"),
        ({"gamma": 2.0}, r"gamma must lie in \[0, 1\], not 2.0"),
        ({"encodings": {0: [1.0], 1: [1.0, 2.0]}}, r"encodings must all have"),
    ]:
        with pytest.raises(fh.InputError, match=message):
            HPN(**settings)
    space = fh.Space(client={"rule": fh.Choice(["a", "b"])})
    with pytest.raises(fh.InputError, match="hpn has nothing to tune"):
        HPN(rounds=3).begin(space.default(), space, np.random.default_rng(0))


# What it learns


def final_loss(policy, seed):
    """The loss after 80 rounds from a config with 0.1, in decades; the server's steps are small."""
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": 0.1})
    federation = ToyFederation(clients=21, noise=0.002, seed=seed, rates=1.0)
    tuner = fh.Tuner(FixedLength(1), policy=policy)
    result = fh.tune(federation, space, tuner, rounds=80, total=80, cohort=10, seed=seed, objective="loss")
    return math.log10(max(1e-3, result.facts["best"]["validation"]["value"]))


def test_it_finds_that_larger_clients_need_smaller_rates():
    """Rates that clients need lie from 1 (10 rows) to 0.01 (16 rows); the config's own is 0.1 for all."""
    policy = HPN(radius=0.5)
    slopes = []
    for seed in range(5):
        federation = ToyFederation(clients=21, noise=0.01, seed=seed, rates=1.0)
        state = replace(policy, rounds=60).begin(SPACE.default(), SPACE, np.random.default_rng(seed))
        federation.start(0, {}, seed=seed)
        for number in range(60):
            rng = np.random.default_rng([seed, number])
            cohort = rng.choice(21, 10, replace=False).tolist()
            # The model is fresh in every round, so that all rounds say the same of rates.
            federation.stop(0)
            federation.start(0, {}, seed=number)
            work = fh.Work(0, cohort, state.assign(cohort, rng), {}, policy.scores)
            [done] = federation.round([work])
            state.learn(done)
        small, large = (state.of(client)["lr"] for client in (0, 6))
        slopes.append(math.log10(large / small))
    assert np.mean(slopes) < -0.5
    assert max(slopes) < 0.2


def test_it_beats_one_rate_for_all_where_clients_need_different_ones():
    """Of 21 clients with rates from 0.01 to 1 the best single one is 0.1, which is what all begin with."""
    ahead = [final_loss(Fixed(), seed) - final_loss(HPN(radius=0.5), seed) for seed in range(6)]
    assert np.mean(ahead) > 0.02
    assert np.mean([gap > 0 for gap in ahead]) >= 0.8
