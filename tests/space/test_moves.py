"""Balls, perturbation and distance, against numbers computed by hand."""

import math

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.space import Choice, Float, Int, Ordinal, Space
from fedhpo.space.config import Config

space = Space(
    client={
        "lr": Float(1e-4, 1.0, log=True),
        "momentum": Float(0.0, 1.0),
        "epochs": Int(1, 5),
        "batch_size": Ordinal([8, 16, 32, 64, 128]),
    },
    server={"lr": Float(0.1, 10.0, log=True), "kind": Choice(["avg", "adam"])},
)
centre = Config(
    client={"lr": 0.01, "momentum": 0.95, "epochs": 3, "batch_size": 8}, server={"lr": 1.0, "kind": "avg"}
)


def draws(move, count=2000):
    rng = np.random.default_rng(0)
    return [move(rng) for _ in range(count)]


def test_ball_around_a_config():
    configs = draws(lambda rng: space.ball(centre, 0.1, rng))
    lr = [config.client["lr"] for config in configs]
    # eps = 0.1 of four decades: a factor 10^0.4 either way.
    assert min(lr) == pytest.approx(0.01 / 10**0.4, rel=0.01)
    assert max(lr) == pytest.approx(0.01 * 10**0.4, rel=0.01)
    assert min(lr) >= 0.01 / 10**0.4
    assert np.mean(np.log10(lr)) == pytest.approx(-2, abs=0.02)
    momentum = np.array([config.client["momentum"] for config in configs])
    # Clipped, not drawn again: a quarter of U(0.85, 1.05) lands on the bound.
    assert momentum.min() == pytest.approx(0.85, abs=1e-3)
    assert np.mean(momentum == 1.0) == pytest.approx(0.25, abs=0.03)
    assert {config.client["epochs"] for config in configs} == {2, 3, 4}
    assert {config.client["batch_size"] for config in configs} == {8, 16}
    assert {config.server for config in configs} == {centre.server}


def test_ball_of_other_scopes():
    configs = draws(lambda rng: space.ball(centre, 0.2, rng, scopes=("server",)))
    assert {config.client for config in configs} == {centre.client}
    # Drawn anew with probability 0.2, so another one with probability 0.1.
    kinds = np.mean([config.server["kind"] == "adam" for config in configs])
    assert kinds == pytest.approx(0.1, abs=0.02)


def test_ball_of_no_size_is_its_centre():
    assert space.ball(centre, 0.0, np.random.default_rng(0)) == centre


def test_perturb_by_evo():
    configs = draws(lambda rng: space.perturb(centre, 0.1, 0.0, rng))
    lr = np.log10([config.client["lr"] for config in configs])
    assert np.all(np.abs(lr + 2) <= 0.4 + 1e-9)
    assert np.ptp(lr) > 0.75
    epochs = np.bincount([config.client["epochs"] for config in configs], minlength=6)[1:] / len(configs)
    assert epochs == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 0], abs=0.04)
    sizes = [config.client["batch_size"] for config in configs]
    assert np.mean(np.array(sizes) == 8) == pytest.approx(2 / 3, abs=0.04)
    assert set(sizes) == {8, 16}
    assert np.mean([config.server["kind"] == "adam" for config in configs]) == pytest.approx(0.05, abs=0.02)


def test_perturb_resamples_from_the_prior():
    configs = draws(lambda rng: space.perturb(centre, 0.0, 1.0, rng))
    lr = np.log10([config.client["lr"] for config in configs])
    assert lr.mean() == pytest.approx(-2, abs=0.1)
    assert lr.std() == pytest.approx(4 / math.sqrt(12), abs=0.05)
    some = draws(lambda rng: space.perturb(centre, 0.0, 0.25, rng, scopes=("client",)))
    assert np.mean([config.client["momentum"] != 0.95 for config in some]) == pytest.approx(0.25, abs=0.03)
    assert {config.server for config in some} == {centre.server}


def test_conditional_ones_come_and_go_with_their_parents():
    conditional = Space(
        client={"kind": Choice(["a", "b"]), "x": Float(0, 1, when={"client.kind": "b"}, default=0.125)},
        server={"y": Float(0, 1, when={"client.kind": "a"})},
    )
    start = Config(client={"kind": "a"}, server={"y": 0.5})
    for move in (
        lambda rng: conditional.ball(start, 0.5, rng),
        lambda rng: conditional.perturb(start, 0.5, 0.0, rng, scopes=("client",)),
    ):
        configs = draws(move)
        became = [config for config in configs if config.client["kind"] == "b"]
        assert len(became) == pytest.approx(500, abs=80)
        assert all(not config.server for config in became)
        x = [config.client["x"] for config in became]
        assert np.mean(x) == pytest.approx(0.5, abs=0.06)
        assert np.std(x) == pytest.approx(1 / math.sqrt(12), abs=0.03)
        stayed = [config for config in configs if config.client["kind"] == "a"]
        assert {config.server["y"] for config in stayed} == {0.5}


def test_clip_to_the_box_ball():
    far = Config(
        client={"lr": 1.0, "momentum": 0.9, "epochs": 5, "batch_size": 128},
        server={"lr": 10.0, "kind": "adam"},
    )
    clipped = space.clip_to_ball(far, centre, 0.25)
    # 0.25 of four decades is one; momentum is inside; one step of ceil(0.25 x 4) for discrete ones.
    assert clipped.client == {"lr": 0.1, "momentum": 0.9, "epochs": 4, "batch_size": 16}
    assert clipped.server == far.server
    assert space.clip_to_ball(far, centre, 1.0) == far


def test_clip_to_the_euclidean_ball():
    plane = Space(client={"x": Float(0, 10), "y": Float(0, 10), "n": Int(0, 100)})
    middle = Config(client={"x": 5.0, "y": 5.0, "n": 50})
    # The difference is (0.3, 0.4, 0), of length 0.5.
    far = Config(client={"x": 8.0, "y": 9.0, "n": 50})
    assert plane.clip_to_ball(far, middle, 0.25, norm="euclidean").client == {"x": 6.5, "y": 7.0, "n": 50}
    assert plane.clip_to_ball(far, middle, 0.5 + 1e-9, norm="euclidean") == far
    # (0, 0.3, -0.4): half of the 40 steps down.
    down = Config(client={"x": 5.0, "y": 8.0, "n": 10})
    assert plane.clip_to_ball(down, middle, 0.25, norm="euclidean").client == {"x": 5.0, "y": 6.5, "n": 30}
    assert plane.clip_to_ball(far, middle, 0.0, norm="euclidean") == middle
    with pytest.raises(InputError, match=r"unknown norm 'l2'; known: box, euclidean"):
        plane.clip_to_ball(far, middle, 0.1, norm="l2")


def test_clipping_a_parent_brings_a_child_to_life():
    conditional = Space(
        client={
            "level": Int(0, 4),
            "x": Float(0, 1, when={"client.level": 1}),
            "y": Float(0, 1, default=0.25, when={"client.level": 1}),
        }
    )
    config, middle = Config(client={"level": 4}), Config(client={"level": 0})
    assert conditional.clip_to_ball(config, middle, 0.1).client == {"level": 1, "x": 0.5, "y": 0.25}
    lively = Config(client={"level": 1, "x": 0.75, "y": 0.0})
    assert conditional.clip_to_ball(config, lively, 0.0) == lively


def test_distance_by_hand():
    other = Config(
        client={"lr": 0.1, "momentum": 0.95, "epochs": 5, "batch_size": 8}, server={"lr": 1.0, "kind": "adam"}
    )
    # One of four decades, two of four steps, one differing choice.
    assert space.distance(centre, other) == pytest.approx(math.hypot(0.25, 0.5) + 1)
    assert space.distance(centre, other, rho=1) == pytest.approx(0.75 + 1)
    assert space.distance(centre, other, rho=math.inf) == pytest.approx(0.5 + 1)
    assert space.distance(centre, centre) == 0.0


def test_distance_with_inactive_ones():
    conditional = Space(
        client={
            "x": Float(0, 1, when={"model.kind": "a"}),
            "y": Float(0, 1, when={"model.kind": ["a", "b"]}),
        },
        model={"kind": Choice(["a", "b", "c"])},
    )
    a = Config(client={"x": 0.2, "y": 0.2}, model={"kind": "a"})
    b = Config(client={"y": 0.5}, model={"kind": "b"})
    c = Config(model={"kind": "c"})
    assert conditional.distance(a, b) == pytest.approx(0.3 + 2)
    assert conditional.distance(a, c) == 3.0
    assert conditional.distance(b, c) == 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: space.ball(centre, -0.1, rng), "eps must be a finite number of at least 0, found -0.1"),
        (lambda rng: space.ball(centre, math.nan, rng), "eps must be a finite number"),
        (lambda rng: space.ball(centre, 0.1, rng, scopes="client"), "scopes must be a list"),
        (lambda rng: space.ball(centre, 0.1, rng, scopes=("clients",)), "unknown scope 'clients'"),
        (lambda rng: space.perturb(centre, 0.1, 1.5, rng), "resample must be a probability .* found 1.5"),
        (lambda rng: space.clip_to_ball(centre, centre, -1), "radius must be a finite number"),
        (lambda rng: space.distance(centre, centre, rho=0.5), "rho must be at least 1 for a norm, found 0.5"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call(np.random.default_rng(0))
