"""Products of updates: by hand, the same however they arrive, recorded, and refused where they cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.engine.products import UpdateProducts
from fedhpo.protocol.federation import CLIENT_CONFIGS, PRODUCTS, SCORES_IN_ROUND, Work
from fedhpo.run.codec import pack, unpack
from fedhpo.schedules import FixedLength
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})


def test_by_hand():
    """Updates (1, 2) and (3, 0), aggregate (2, 1), the last number is no weight; before it was (0, 1)."""
    found = UpdateProducts(3, 2, previous=np.array([0, 1], np.float32))
    found.add(0, np.array([1, 2, 9], np.float32))
    found.add(2, np.array([3, 0, 9], np.float32))
    products = found.of_round(np.array([2, 1, 9], np.float32))
    assert products.squared.tolist() == pytest.approx([5.0, np.nan, 9.0], nan_ok=True)
    assert products.with_previous.tolist() == pytest.approx([2.0, np.nan, 0.0], nan_ok=True)
    assert (products.aggregate_squared, products.aggregate_with_previous) == (5.0, 1.0)


def reports(federation, rounds=3):
    with federation:
        federation.start(0, {}, seed=1)
        return [federation.round([Work(0, [0, 1, 2], {"lr": 0.1}, products=True)])[0] for _ in range(rounds)]


def weights(federation):
    return federation.state(0).arrays["weights"].copy()


def test_of_a_simulated_round_they_are_those_of_the_models():
    data = fh.load("digits", clients=6, seed=0)
    with fh.simulate("mlp", data, workers=0) as federation:
        federation.start(0, {}, seed=1)
        steps, found = [], []
        for _ in range(3):
            before = weights(federation)
            found.append(federation.round([Work(0, [0, 1, 2], {"lr": 0.1}, {"lr": 1.0}, products=True)])[0])
            steps.append(weights(federation).astype(np.float64) - before)
    products = [report.products for report in found]
    for step, one in zip(steps, products, strict=True):
        assert one.aggregate_squared == pytest.approx(float(step @ step), rel=1e-3)
    assert np.isnan(products[0].aggregate_with_previous)
    assert np.isnan(products[0].with_previous).all()
    assert products[1].aggregate_with_previous == pytest.approx(float(steps[1] @ steps[0]), rel=1e-3)
    # The aggregate is the mean of the updates by size, and so is its product with the one before.
    sizes = found[2].train_size / found[2].train_size.sum()
    assert products[2].aggregate_with_previous == pytest.approx(
        float(sizes @ products[2].with_previous), rel=1e-4
    )


def test_workers_and_a_restored_trial_give_the_same():
    data = fh.load("digits", clients=6, seed=0)
    alone = reports(fh.simulate("mlp", data, workers=0))
    side_by_side = reports(fh.simulate("mlp", data, workers=2))
    assert [pack([one]) for one in alone] == [pack([one]) for one in side_by_side]
    first, second = (fh.simulate("mlp", data, workers=0) for _ in range(2))
    with first, second:
        first.start(0, {}, seed=1)
        work = Work(0, [0, 1, 2], {"lr": 0.1}, products=True)
        first.round([work])
        second.restore(0, first.state(0))
        assert pack(second.round([work])) == pack([alone[1]])


def test_a_record_holds_them():
    [one] = reports(ToyFederation(), rounds=1)
    [back] = unpack(pack([one]))
    assert back.products.squared.tolist() == one.products.squared.tolist()
    assert back.products.aggregate_squared == one.products.aggregate_squared
    assert np.isnan(back.products.aggregate_with_previous)


def test_without_being_asked_nobody_takes_them():
    with ToyFederation() as federation:
        federation.start(0, {}, seed=1)
        assert federation.round([Work(0, [0, 1], {"lr": 0.1})])[0].products is None


# A policy that asks for them


class _Rates:
    """A rate for each client, raised where its update goes the way of the last aggregate."""

    def __init__(self, config: Any) -> None:
        self.lr, self.rates, self.factor = config.client["lr"], {}, 1.0
        self.cohort: list[int] = []

    def assign(self, cohort, rng):
        self.cohort = list(cohort)
        return [{"lr": self.rates.get(client, self.lr)} for client in cohort]

    def server(self, server):
        return {**server, "lr": server["lr"] * self.factor}

    def learn(self, report):
        products = report.products
        for client, value in zip(self.cohort, products.with_previous, strict=True):
            self.rates[client] = self.rates.get(client, self.lr) * (1.1 if value > 0 else 1.0)
        self.factor = 1.0 + 0.1 * (products.aggregate_with_previous > 0)

    def deployed(self, config):
        return config.replace(client={"lr": float(np.median([*self.rates.values()]))})

    def history(self):
        return {"rates": sorted(self.rates.items())}


@dataclass(frozen=True)
class Hyper:
    scores = ()
    needs = frozenset({CLIENT_CONFIGS, PRODUCTS})

    def begin(self, config, space, rng):
        return _Rates(config)


def hyper(federation=None, **options):
    tuner = fh.Tuner(FixedLength(2), policy=Hyper())
    return fh.tune(federation or ToyFederation(), SPACE, tuner, rounds=5, total=10, cohort=4, **options)


def test_a_policy_learns_from_them_and_is_reported(tmp_path):
    result = hyper(run=tmp_path / "run")
    [history] = [one for one in result.policies if one["trial"] == result.facts["best"]["trial"]]
    assert [list(pair) for pair in result.policy["rates"]] == [list(pair) for pair in history["rates"]]
    tuned = result.facts["best"]["config"]["client"]["lr"]
    assert tuned == result.tuned_config.client["lr"]
    rates = [rate for _, rate in result.policy["rates"]]
    assert max(rates) > min(rates)
    again = hyper(run=tmp_path / "run")  # from the record
    assert {**again.facts, "times": 0} == {**result.facts, "times": 0}


def test_privacy_refuses_them():
    with pytest.raises(InputError, match="Hyper learns from products of clients' updates"):
        hyper(evaluation=fh.Evaluator(privacy=fh.Privacy(1.0)))


class Without(ToyFederation):
    def __init__(self):
        super().__init__()
        self.capabilities = frozenset({CLIENT_CONFIGS, SCORES_IN_ROUND})


def test_a_federation_that_cannot_take_them_refuses_the_method():
    with pytest.raises(InputError, match="tuner needs a federation with: products of updates"):
        hyper(Without())
