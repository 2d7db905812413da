"""Wrong settings and arguments are refused where they are given, by name, with what to write instead."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fedhpo as fh
from fedhpo.core.errors import nearest
from fedhpo.methods import METHODS
from fedhpo.methods.flora.surfaces import diagnose
from fedhpo.queries.pairs import PartyPairs
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("SHA", "sha"),
        ("fedexx", "fedex"),
        ("fedtnue", "fedtune"),
        ("Hyper-Band", "hyperband"),
        ("bhob", "bohb"),
        ("annealing", None),
        ("", None),
    ],
)
def test_the_nearest_name(given, meant):
    assert nearest(given, METHODS) == meant


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fh.SHA(trials=True), "trials must be a whole number or None, not True"),
        (lambda: fh.SHA(trials=3.0), "trials must be a whole number or None, not 3.0"),
        (lambda: fh.TPE(gamma=[0.1]), r"gamma must be a number, not \[0.1\]"),
        (lambda: fh.TPE(gamma=np.float64("inf")), "gamma must be a finite number, not inf"),
        (lambda: fh.GP(acquisition=3), "acquisition must be a string, not 3"),
        (lambda: fh.GridSearch(points=0), "points must be a whole number of at least 1, not 0"),
        (lambda: fh.FedPop(population="3"), "population must be a whole number or None, not '3'"),
        (lambda: fh.FedPop(norm="Box"), "unknown norm 'Box' .did you mean 'box'"),
        (lambda: fh.FedEx(arms=None), "arms must be a whole number, not None"),
        (lambda: fh.Evaluator(privacy=3), "privacy must be of type Privacy or None, not 3"),
        (lambda: fh.Evaluator(paired=1), "paired must be True or False or None, not 1"),
        (lambda: fh.Objective(tail="all"), "tail must be a number, not 'all'"),
        (lambda: fh.Objective(metric=[]), r"metric must be a string, not \[\]"),
        (lambda: fh.Privacy(epsilon="1"), "epsilon must be a number, not '1'"),
        (lambda: fh.Tuner(3), "schedule must be a schedule, such as"),
        (lambda: fh.Tuner(fh.schedules.Halving(), "tpe"), "sampler must be a sampler, such as"),
        (lambda: fh.ProxySearch(3), "federation must be a federation or a function"),
        (lambda: fh.FLoRA(alpha=0), "alpha must be above 0, not 0"),
        (lambda: fh.FLoRA(configs=1501, regressor="gp"), "takes at most 1500 pairs, and 1501"),
        (lambda: fh.samplers.OptunaSampler("TPESampler", {"n_trials": 3}), "options of TPESampler"),
        (lambda: fh.samplers.OptunaSampler(3), "sampler must be a name or a class"),
        (lambda: fh.data.Dirichlet(10, 0.5, balanced="yes"), "balanced must be True or False, not 'yes'"),
        (lambda: fh.data.HeterogeneityIndex(2, [[0.1], [0.2, 0.3]], 3), "index=.*; allowed: numbers from 0"),
        (lambda: fh.data.PoissonSkew(2, quantity=[3]), r"quantity=\[3\]; allowed"),
    ],
)
def test_what_later_code_would_refuse_is_refused_at_once(make, message):
    with pytest.raises(fh.InputError, match=message):
        make()


def test_numpys_numbers_are_numbers():
    assert fh.SHA(trials=np.int64(9)).to_dict() == fh.SHA(trials=9).to_dict()
    assert type(fh.TPE(gamma=np.float32(0.5)).gamma) is float
    assert fh.Evaluator(clients=np.int64(3)).count(10) == 3


SCIPY = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        ((1e-3, 1.0), r"fedhpo.Float\(0.001, 1.0, log=True\)"),
        ((0.0, 0.9), r"fedhpo.Float\(0.0, 0.9\)"),
        ((1, 5), r"fedhpo.Int\(1, 5\)"),
        ([8, 16, 32], r"fedhpo.Choice\(\[8, 16, 32\]\)"),
        (range(1, 4), r"fedhpo.Ordinal\(\[1, 2, 3\]\)"),
        ({"low": 1e-3, "high": 1.0}, r"fedhpo.Float\(0.001, 1.0\)"),
        ({"a", "b"}, "fedhpo.Choice"),
        (SCIPY.loguniform(1e-3, 1.0), "fedhpo.Float.low, high., with log=True"),
    ],
)
def test_what_is_no_hyperparameter_is_not_taken_for_a_fixed_value(value, instead):
    with pytest.raises(fh.InputError, match=f"client.lr = .*to tune it write {instead}"):
        fh.Space(client={"lr": value})


def test_optunas_distributions_are_translated():
    optuna = pytest.importorskip("optuna")
    with pytest.raises(fh.InputError, match=r"fedhpo.Float\(0.001, 1.0, log=True\)"):
        fh.Space(client={"lr": optuna.distributions.FloatDistribution(1e-3, 1.0, log=True)})


def test_a_fixed_list_says_so():
    space = fh.Space(model={"hidden": {"value": [32, 16]}}, client={"lr": fh.Float(0, 1)})
    assert space.default().model["hidden"] == (32, 16)
    assert fh.Space.from_dict(space.to_dict()) == space
    assert space.subspace(["client", "model"]).fixed == {"model.hidden": (32, 16)}
    assert "{'value': (32, 16)}" in repr(space)


def test_enqueued_configs_may_be_written_by_full_names():
    result = fh.tune(ToyFederation(), SPACE, "random", rounds=2, total=6, enqueue=[{"client.lr": 0.5}])
    assert result.facts["trials"][1]["config"] == {"client": {"lr": 0.5}}
    with pytest.raises(fh.InputError, match=r"enqueue\[0\].*write {'client': {'lr': 0.1}}.*'client.lr'"):
        fh.tune(ToyFederation(), SPACE, "random", rounds=2, enqueue=[{"lr": 0.1}])


def _tune(**given):
    return fh.tune(ToyFederation(), SPACE, **{"method": "random", "rounds": 2, "total": 4, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"callbacks": [lambda: None]}, r"callbacks\[0\], <lambda>\(\), must take one argument, the event"),
        (
            {"callbacks": [lambda event: 0, lambda a, b: 0]},
            r"callbacks\[1\], <lambda>\(a, b\), must take one",
        ),
        ({"callbacks": lambda event: None}, "callbacks must be a list of functions.*put it into a list"),
        ({"callbacks": [3]}, r"callbacks\[0\] must be a function of one argument, the event, not 3"),
        ({"method": "SHA"}, "did you mean 'sha'"),
        ({"rounds": 2.5}, "rounds must be a whole number of at least 1, not 2.5"),
        ({"seed": "x"}, "seed must be a whole number of at least 0, not 'x'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"run": 3}, "run must be the path of a directory, not 3"),
        ({"objective": 3}, "objective must be 'accuracy', 'error', 'loss'"),
        ({"evaluation": 0.1}, "evaluation must be a fedhpo.Evaluator"),
        ({"timeout": "1 h"}, "timeout must be a positive number of seconds, not '1 h'"),
        ({"baseline": 1}, "baseline must be True or False, not 1"),
        ({"enqueue": {"client": {"lr": 0.1}}}, "enqueue must be a list of configs"),
    ],
)
def test_arguments_of_tune(given, message):
    with pytest.raises(fh.InputError, match=message):
        _tune(**given)


def test_callbacks_that_can_be_called_are_taken(capsys):
    seen = []

    class Watcher:
        def __call__(self, event, more=None):
            seen.append(event.kind)

    _tune(callbacks=(print, Watcher(), functools.partial(lambda a, event: None, 1)))
    assert seen[-1] == "finish"


def test_a_grid_that_nobody_can_try_is_refused_before_it_is_made():
    wide = fh.Space(client={"epochs": fh.Int(1, 2**40)})
    with pytest.raises(fh.InputError, match=r"1,099,511,627,776 values of client.epochs.*'client.epochs': 5"):
        next(wide.grid(3))
    assert len(list(wide.grid({"client.epochs": 4}))) == 4
    many = fh.Space(client={name: fh.Float(0.0, 1.0) for name in "abc"})
    with pytest.raises(fh.InputError, match=r"the grid has 8,000,000 configs; at most 1,000,000"):
        many.grid(200)


def test_partitions_and_splits_of_ones_own_are_checked():
    x, y = np.zeros((10, 2)), np.arange(10) % 2
    for partition in (fh.data.IID, lambda: None, {"kind": "iid"}, 3):
        with pytest.raises(fh.InputError, match=r"partition must be a partition, such as fedhpo.data.IID"):
            fh.from_arrays(x, y, partition)
    with pytest.raises(fh.InputError, match=r"split must give three fedhpo.data.Split objects, not None"):
        fh.from_arrays(x, y, fh.data.IID(2), split=lambda whole, rng: None)


def test_a_device_that_is_not_there():
    data = fh.load("digits", clients=3)
    if not torch.cuda.is_available():
        with pytest.raises(fh.InputError, match=r"device = 'cuda' cannot be used here.*write device='cpu'"):
            fh.simulate("mlp", data, device="cuda", workers=0)
    with pytest.raises(fh.InputError, match="device = 'gpu' cannot be used"):
        fh.simulate("mlp", data, device="gpu", workers=0)
    with pytest.raises(fh.InputError, match=r"unknown model 'resnet50' .did you mean 'resnet18_gn'"):
        fh.simulate("resnet50", data, workers=0)


def test_diagnostics_that_cannot_be_made_are_left_out_not_fatal():
    """800 pairs of each of three parties: of two together, a process of all pairs is refused."""
    space = fh.Space(client={"x": fh.Int(0, 10)})
    configs = [fh.Config(client={"x": i % 11}) for i in range(800)]
    parties = [PartyPairs(p, 10, configs, [abs(c.client["x"] - p) / 10 for c in configs]) for p in range(3)]
    quick = SimpleNamespace(
        spread=lambda points: (points[:, 0], points[:, 0]), predict=lambda points: points[:, 0]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedhpo.methods.flora.surfaces.diagnostics.own_regressors", lambda *_: [quick] * 3)
        found = diagnose(space, parties, regressor="gp")
    assert found["left_out"] == {}
    assert "no party was left out: regressor='gp' takes at most 1500 pairs, found 1600" in found["why"]
    assert found["recommended"] in ("aplm", "mplm")
