"""Spaces by hand: conditions, defaults, grids, counts, validation."""

import math
import pickle

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.space import Choice, Float, Int, Ordinal, Space
from fedhpo.space.config import Config

# A party's space in the manner of FLoRA: the algorithm decides what else there is. The client scope
# comes before the model scope, so children come before their parents here.
learners = Space(
    client={
        "C": Float(0.1, 10, log=True, when={"model.algorithm": "svm"}),
        "epochs": Int(1, 3, when={"model.algorithm": ["mlp", "cnn"]}),
        "decay": Ordinal([0.5, 0.9], when={"client.epochs": [2, 3]}),
        "seed": 7,
    },
    model={"algorithm": Choice(["svm", "mlp", "cnn"])},
)


def test_names_and_order():
    assert learners.names == ("client.C", "client.decay", "client.epochs", "model.algorithm")
    assert learners.dimensions == 4
    assert learners.fixed == {"client.seed": 7}
    assert learners.hyperparameters["client.epochs"].count == 3
    assert [dimension.name for dimension in learners.plan] == [
        "model.algorithm",
        "client.C",
        "client.epochs",
        "client.decay",
    ]


def test_conditions_decide_what_a_config_holds():
    svm = learners.default()
    assert svm == Config(client={"C": 1.0, "seed": 7}, model={"algorithm": "svm"})
    mlp = learners.complete({"model": {"algorithm": "mlp"}, "client": {"epochs": 1}})
    assert mlp == Config(client={"epochs": 1, "seed": 7}, model={"algorithm": "mlp"})
    chained = learners.complete({"model": {"algorithm": "cnn"}})
    assert chained == Config(client={"epochs": 2, "decay": 0.9, "seed": 7}, model={"algorithm": "cnn"})


def test_several_conditions_must_all_hold():
    space = Space(
        client={"a": Choice([0, 1]), "b": Choice([0, 1])},
        server={"c": Float(0, 1, when={"client.a": 1, "client.b": [1]})},
    )
    active = [config for config in space.grid(1) if config.server]
    assert active == [Config(client={"a": 1, "b": 1}, server={"c": 0.5})]


def test_a_fixed_parent_decides_once_for_all():
    made = {
        kind: Space(client={"C": Float(0, 1, when={"model.kind": "svm"})}, model={"kind": kind}).default()
        for kind in ("svm", "mlp")
    }
    assert made["svm"].client == {"C": 0.5}
    assert made["mlp"].client == {}


def test_inactive_coordinates_are_one_half():
    unit = learners.to_unit(learners.default())
    assert unit == pytest.approx([0.5, 0.5, 0.5, 1 / 6])
    mlp = learners.complete({"model": {"algorithm": "mlp"}, "client": {"epochs": 3, "decay": 0.5}})
    assert learners.to_unit(mlp) == pytest.approx([0.5, 0.25, 5 / 6, 0.5])


def test_grid_by_hand():
    grid = list(learners.grid(2))
    svm = [(config.client["C"],) for config in grid if config.model["algorithm"] == "svm"]
    mlp = [(c.client["epochs"], c.client.get("decay")) for c in grid if c.model["algorithm"] == "mlp"]
    assert svm == [(0.1,), (10.0,)]
    assert mlp == [(1, None), (2, 0.5), (2, 0.9), (3, 0.5), (3, 0.9)]
    assert len(grid) == 2 + 5 + 5
    assert list(learners.grid(2)) == grid


def test_grid_with_numbers_by_name():
    space = Space(client={"lr": Float(0, 1), "width": Int(1, 100), "kind": Choice(["a", "c"])})
    grid = list(space.grid({"client.lr": 3, "client.width": 4}))
    assert len(grid) == 3 * 4 * 2
    # Centres of four equal parts of 1..100.
    assert sorted({config.client["width"] for config in grid}) == [13, 38, 63, 88]
    assert sorted({config.client["lr"] for config in grid}) == [0.0, 0.5, 1.0]
    with pytest.raises(InputError, match=r"points: client.lr is continuous and needs a number"):
        space.grid({"client.width": 4})
    with pytest.raises(InputError, match=r"unknown hyperparameter in points 'client.rl'"):
        space.grid({"client.lr": 3, "client.rl": 4})
    with pytest.raises(InputError, match=r"points of client.lr must be a whole number of at least 1, not 0"):
        space.grid(0)


def test_size():
    assert learners.size == math.inf
    finite = Space(**{scope: learners.scope(scope) for scope in ("client", "model")} | {"server": {"x": 1}})
    assert finite.size == math.inf
    # 1 svm without its C, 2 x (1 + 2 x 2) networks.
    client = {key: value for key, value in learners.scope("client").items() if key != "C"}
    assert Space(client=client, model=learners.scope("model")).size == 1 + 2 * 5
    # Half of the options of a parent with a million values activate nothing.
    assert Space(client={"n": Int(1, 10**6), "m": Int(1, 5, when={"client.n": [1, 2]})}).size == 10**6 + 8
    assert Space(client={"lr": 0.1}).size == 1
    # A continuous one that is never active adds nothing.
    assert Space(client={"lr": Float(0, 1, when={"server.kind": "a"})}, server={"kind": "b"}).size == 1


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            Config(client={"C": 20.0, "seed": 7}, model={"algorithm": "svm"}),
            "client.C = 20.0 is not allowed; allowed: a number from 0.1 to 10.0",
        ),
        (
            Config(client={"C": 1.0, "seed": 7}, model={"algorithm": "smv"}),
            "model.algorithm = 'smv' is not allowed; allowed: one of 'svm', 'mlp', 'cnn'",
        ),
        (
            Config(client={"seed": 7}, model={"algorithm": "svm"}),
            "client.C is missing; allowed: a number from 0.1 to 10.0",
        ),
        (
            Config(client={"C": 1.0}, model={"algorithm": "svm"}),
            "client.seed is missing; it is fixed at 7",
        ),
        (
            Config(client={"C": 1.0, "seed": 8}, model={"algorithm": "svm"}),
            "client.seed = 8: it is fixed at 7",
        ),
        (
            Config(client={"C": 1.0, "seed": 7, "epohcs": 1}, model={"algorithm": "svm"}),
            "unknown hyperparameter 'client.epohcs' .did you mean 'client.epochs'",
        ),
        (
            Config(client={"C": 1.0, "seed": 7, "epochs": 1}, model={"algorithm": "svm"}),
            "client.epochs = 1: it is not active here, only when model.algorithm is 'mlp' or 'cnn'",
        ),
    ],
)
def test_validate_says_what_is_wrong(config, message):
    with pytest.raises(InputError, match=message):
        learners.validate(config)
    assert not learners.contains(config)


def test_complete_checks_too():
    with pytest.raises(InputError, match=r"client.epochs = 4 is not allowed"):
        learners.complete({"client": {"epochs": 4}, "model": {"algorithm": "mlp"}})
    with pytest.raises(InputError, match=r"client.seed = 8: it is fixed at 7"):
        learners.complete({"client": {"seed": 8}})
    with pytest.raises(InputError, match=r"client.epochs = 2: it is not active here"):
        learners.complete({"client": {"epochs": 2}})
    with pytest.raises(InputError, match=r"unknown hyperparameter 'client.c'"):
        learners.complete({"client": {"c": 2}})
    whole = learners.complete({"client": {"C": 2}}).client["C"]
    assert (whole, type(whole)) == (2.0, float)


@pytest.mark.parametrize(
    ("scopes", "message"),
    [
        (
            {"client": {"a": Float(0, 1, when={"server.b": 1})}, "server": {"bb": 1}},
            "client.a: when: unknown hyperparameter 'server.b' .did you mean 'server.bb'",
        ),
        (
            {"client": {"a": Float(0, 1, when={"client.b": "z"}), "b": Choice(["x", "y"])}},
            "client.a: when client.b = 'z' is not allowed; allowed: one of 'x', 'y'",
        ),
        (
            {"client": {"a": Int(0, 1, when={"client.b": 1}), "b": Int(0, 1, when={"client.a": 1})}},
            "conditions form a circle: client.a -> client.b -> client.a",
        ),
        ({"client": {"a": Int(0, 1, when={"client.a": 1})}}, "circle: client.a -> client.a"),
        ({"client": {"a.": 1}}, "client: a name must be a non-empty string, no dot at its ends"),
        ({"client": [1]}, "client must map names"),
        ({"client": {"a": object()}}, "client.a = <object .* must be a number"),
    ],
)
def test_mistakes_in_a_space_are_named(scopes, message):
    with pytest.raises(InputError, match=message):
        Space(**scopes)


def test_from_unit_checks_its_point():
    with pytest.raises(InputError, match=r"unit must have shape \(4,\), found \(3,\)"):
        learners.from_unit([0.5] * 3)
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(InputError, match=r"unit must lie in \[0, 1\]"):
            learners.from_unit([bad, 0, 0, 0])
    with pytest.raises(InputError, match=r"client.C = 100.0 is not allowed"):
        learners.to_unit(Config(client={"C": 100.0}))
    with pytest.raises(InputError, match=r"client.C = 'one' is not allowed"):
        learners.to_unit(Config(client={"C": "one"}))


def test_sampling_follows_the_scales():
    rng = np.random.default_rng(0)
    space = Space(
        client={"lr": Float(1e-4, 1, log=True), "momentum": Float(0, 1), "epochs": Int(1, 4)},
        server={"kind": Choice(["a", "b"])},
    )
    configs = [space.sample(rng) for _ in range(4000)]
    lr = np.log10([config.client["lr"] for config in configs])
    # Standard error of a uniform mean over 4000 draws: 0.29 / 63 = 0.0046 of the range.
    assert lr.mean() == pytest.approx(-2, abs=0.08)
    assert np.mean([config.client["momentum"] for config in configs]) == pytest.approx(0.5, abs=0.02)
    counts = np.bincount([config.client["epochs"] for config in configs])[1:] / 4000
    assert counts == pytest.approx([0.25] * 4, abs=0.03)
    assert np.mean([config.server["kind"] == "a" for config in configs]) == pytest.approx(0.5, abs=0.03)


def test_sampling_repeats_with_its_generator():
    draws = [[learners.sample(rng) for _ in range(5)] for rng in map(np.random.default_rng, (3, 3, 4))]
    assert draws[0] == draws[1] != draws[2]


def test_subspace():
    config = learners.complete({"model": {"algorithm": "mlp"}})
    client = learners.subspace(["client"], config)
    # C needs the svm: its parent is fixed, so it stays and is never active.
    assert client.names == ("client.C", "client.decay", "client.epochs")
    assert client.fixed == {"client.seed": 7, "model.algorithm": "mlp"}
    assert client.default() == config
    assert learners.subspace(["model"]) == Space(model=learners.scope("model"))
    with pytest.raises(InputError, match=r"client.C depends on model.algorithm, .* give the config"):
        learners.subspace(["client"])
    with pytest.raises(InputError, match="unknown scope 'clint'"):
        learners.subspace(["clint"])
    with pytest.raises(InputError, match=r"scopes must be a list such as .*, found 'client'"):
        learners.subspace("client")


def test_subspace_drops_what_hangs_on_an_inactive_parent():
    space = Space(
        client={"a": Int(1, 2, when={"server.b": 1}), "c": Int(1, 2, when={"client.a": 1})},
        server={"b": Int(1, 2, when={"model.d": 1})},
        model={"d": Choice([0, 1])},
    )
    config = space.default()
    assert config == Config(model={"d": 0})
    assert space.subspace(["client"], config) == Space(model={"d": 0})


def test_spaces_are_values():
    again = Space(client=learners.scope("client"), model=learners.scope("model"))
    assert again == learners
    assert hash(again) == hash(learners)
    assert pickle.loads(pickle.dumps(learners)) == learners
    reordered = Space(client=dict(reversed(learners.scope("client").items())), model=learners.scope("model"))
    assert reordered == learners
    assert repr(reordered) == repr(learners)
    names = {"Space": Space, "Float": Float, "Int": Int, "Ordinal": Ordinal, "Choice": Choice}
    assert eval(repr(learners), names) == learners


def test_an_empty_space_has_one_config():
    space = Space()
    assert (space.dimensions, space.size, list(space.grid(3))) == (0, 1, [Config()])
    assert space.sample(np.random.default_rng(0)) == space.default() == Config()
    assert space.from_unit([]) == Config()
