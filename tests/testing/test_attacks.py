"""Attacks by hand, and hostile clients of a simulated federation."""

import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.protocol.federation import Status
from fedhpo.testing.attacks import (
    Attack,
    InnerProduct,
    InvertedScores,
    LittleIsEnough,
    Noise,
    NotANumber,
    SignFlip,
    SizeLie,
    ThresholdScores,
    Together,
    flipped,
    hostile,
    hostile_clients,
    majority_chance,
)

OWN = np.array([1.0, -2.0], np.float32)
KNOWN = np.array([[0.0, 1.0], [2.0, 3.0]], np.float32)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (Attack(), [1, -2]),
        (SignFlip(10.0), [-10, 20]),
        (InnerProduct(0.5), [-0.5, -1]),
        (LittleIsEnough(1.0), [0, 1]),  # means 1 and 2, standard deviations 1 and 1
        (Together((SignFlip(1.0), SignFlip(2.0))), [2, -4]),
    ],
)
def test_updates_by_hand(attack, expected):
    assert attack.update(OWN, KNOWN, RNG).tolist() == expected


def test_noise_has_the_scale_of_the_own_update():
    own = np.full(100_000, 3.0, np.float32)
    noise = Noise(2.0).update(own, own[None], np.random.default_rng(0))
    assert noise.std() == pytest.approx(6.0, rel=0.02)
    assert noise.mean() == pytest.approx(0.0, abs=0.1)


def test_the_deviations_of_a_little_is_enough_are_the_papers():
    """Baruch et al.: of 50 workers 24 hostile, s = 2, z with Phi(z) = 24/26."""
    z = LittleIsEnough.against(50, 24).deviations
    assert 0.5 * (1 + math.erf(z / math.sqrt(2))) == pytest.approx(24 / 26)


def test_scores_by_hand():
    assert InvertedScores().score(-math.log(0.25), 0.75) == (pytest.approx(-math.log(0.75)), 0.25)
    assert InvertedScores().score(0.0, 1.0) == (10.0, 0.0)
    assert all(map(math.isnan, InvertedScores().score(math.nan, math.nan)))
    assert ThresholdScores(0.5).score(0.3, 0.9) == (10.0, 0.0)
    assert ThresholdScores(0.5).score(0.3, 0.5) == (0.0, 1.0)
    assert all(map(math.isnan, ThresholdScores().score(math.nan, math.nan)))


def test_the_chance_of_a_hostile_majority():
    """Of 4 clients 2 hostile, 2 drawn: at least one is hostile in 5 of 6 draws."""
    assert majority_chance(4, 0.5, 2) == pytest.approx(5 / 6)
    assert majority_chance(20, 0.4, 20) == 0


@pytest.fixture(scope="module")
def data():
    return fh.load("digits", clients=10, partition={"kind": "iid"})


def federation(data, attack=None, share=0.3, **options):
    made = fh.simulate("linear", data, workers=0, **options)
    made.start(0, {}, 0)
    found = hostile(made, attack, share=share) if attack is not None else None
    return made, found


def trained(made, rounds=1):
    for _ in range(rounds):
        [report] = made.round([fh.Work(0, range(10), {"lr": 0.2})])
    return report, made.state(0).arrays["weights"]


def test_an_honest_attack_changes_nothing(data):
    plain = trained(federation(data)[0], 2)[1]
    # An adversary sees single updates, which are then added up in another order.
    np.testing.assert_allclose(trained(federation(data, Attack())[0], 2)[1], plain, rtol=1e-5, atol=1e-7)


def test_a_sign_flip_moves_the_mean_as_far_as_its_share_and_scale_say(data):
    """Three of ten turn their update: with equal updates the step would be 0.7 - 0.3 of the honest one."""
    made, adversary = federation(data, SignFlip(1.0), weighting="uniform")
    start = made.state(0).arrays["weights"]
    honest = [trained_alone(data, client, start) for client in range(10)]
    signs = np.where(np.isin(range(10), adversary.clients), -1.0, 1.0)
    expected = start + np.mean(signs[:, None] * np.array(honest), axis=0)
    np.testing.assert_allclose(trained(made)[1], expected, atol=1e-5)


def trained_alone(data, client, start):
    with fh.simulate("linear", data, workers=0) as one:
        one.start(0, {}, 0)
        one.round([fh.Work(0, [client], {"lr": 0.2})])
        return one.state(0).arrays["weights"] - start


def test_nan_is_rejected_and_the_round_goes_on(data):
    made, adversary = federation(data, NotANumber())
    report, weights = trained(made)
    failed = np.flatnonzero(report.status == Status.FAILED)
    assert failed.tolist() == adversary.clients.tolist()
    assert np.isfinite(weights).all()


def test_a_size_lie_takes_over_the_mean_unless_a_cap_bounds_it(data):
    lie = Together((SizeLie(100_000), SignFlip(10.0)))
    loud = trained(federation(data, lie, share=0.1)[0])[0]
    assert loud.train_size.max() == 100_000
    capped, adversary = federation(data, lie, share=0.1, weight_cap=2.0)
    sizes = trained(capped)[0].train_size
    assert sizes[adversary.clients[0]] == 2 * np.median(sizes)
    [scores] = capped.evaluate([0], range(10))
    assert scores.size[adversary.clients[0]] == 2 * np.median(scores.size)


def test_score_lies_reach_evaluations_and_rounds(data):
    made, adversary = federation(data, InvertedScores())
    made.adversary = None
    [honest] = made.evaluate([0], range(10))
    made.adversary = adversary
    [scores] = made.evaluate([0], range(10))
    lying = np.isin(scores.clients, adversary.clients)
    np.testing.assert_allclose(scores.accuracy[lying], 1 - honest.accuracy[lying])
    assert (scores.accuracy[~lying] == honest.accuracy[~lying]).all()
    report, _ = trained(made)
    np.testing.assert_allclose(report.accuracy_before, scores.accuracy)


def test_labels_are_flipped_at_hostile_clients_only(data):
    lying = hostile_clients(range(10), 0.3)
    other = flipped(data, lying.tolist())
    rows = np.concatenate([data.train.rows(client) for client in lying])
    assert (other.y[rows] == 9 - data.y[rows]).all()
    rest = np.setdiff1d(np.arange(len(data.y)), rows)
    assert (other.y[rest] == data.y[rest]).all()
