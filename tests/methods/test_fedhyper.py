"""FedHyper: rates that follow the product of two updates, by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods.fedhyper import HyperGradient
from fedhpo.protocol.federation import PRODUCTS, Products, RoundReport, Work
from fedhpo.testing import ToyFederation
from fedhpo.testing.policy import PolicySuite

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})
CONFIG = SPACE.complete({"client.lr": 0.1})


def report(round, squared, product):
    nothing, one = np.full(1, np.nan), np.ones(1, np.int64)
    scores = [nothing] * 4
    products = Products(nothing, nothing, squared, product)
    return RoundReport(0, round, True, one, np.zeros(1, np.int8), one, one, *scores, products=products)


def state(**settings):
    return HyperGradient(**settings).begin(CONFIG, SPACE, np.random.default_rng(0))


def test_after_the_first_round_nothing_has_moved():
    one = state()
    one.learn(report(1, 4.0, math.nan))
    assert one.assign([0], None)["lr"] == 0.1
    assert one.server({"lr": 1.0, "momentum": 0.9}) == {"lr": 1.0, "momentum": 0.9}


def test_by_angle_the_logarithm_moves_by_step_times_the_cosine():
    one = state(step=0.2)
    one.learn(report(1, 4.0, math.nan))
    one.learn(report(2, 1.0, -1.0))  # norms 2 and 1: a cosine of -1/2
    assert one.rates == pytest.approx({"client": 0.1 * math.exp(-0.1), "server": math.exp(-0.1)})
    one.learn(report(3, 9.0, 3.0))  # norms 1 and 3: a cosine of 1
    assert one.rates["server"] == pytest.approx(math.exp(0.1))


def test_by_product_rates_move_by_the_product_itself_within_their_bounds():
    one = state(rule="product")
    one.learn(report(1, 4.0, math.nan))
    one.learn(report(2, 1.0, 0.5))
    assert one.rates == pytest.approx({"client": 0.6, "server": 1.5})
    one.learn(report(3, 1.0, 7.0))
    assert one.rates == {"client": 1.0, "server": 3.0}  # the space ends at 1, the server's bound is 3
    one.learn(report(4, 1.0, -7.0))
    assert one.rates == pytest.approx({"client": 0.01, "server": 1 / 3})


def test_its_history_can_be_told():
    one = state()
    one.learn(report(1, 1.0, math.nan))
    one.learn(report(2, 1.0, 1.0))
    assert one.history()["round"] == [2]
    assert one.history()["cosine"] == [1.0]


def test_two_equal_rounds_agree_and_make_rates_longer():
    data = fh.load("digits", clients=5, seed=0)
    with fh.simulate("linear", data, workers=0) as federation:
        federation.start(0, {}, seed=0)
        one = state()
        for _ in range(4):
            client = {**one.assign([0], None), "batch_size": 10_000}  # whole batches of one client
            work = Work(0, [0], client, one.server({"lr": 1.0}), products=True)
            one.learn(federation.round([work])[0])
    assert all(cosine > 0.9 for cosine in one.history()["cosine"])
    assert one.rates["client"] > 0.1


def test_it_needs_a_clients_rate_and_products():
    space = fh.Space(server={"lr": fh.Float(0.1, 1.0)})
    with pytest.raises(fh.InputError, match=r"needs client\.lr"):
        fh.tune(ToyFederation(), space, fh.FedHyper(schedule="fixed"), rounds=2, cohort=2)
    assert PRODUCTS in fh.FedHyper().needs


class TestHyperGradient(PolicySuite):
    def policy(self):
        return HyperGradient()


class TestByProduct(PolicySuite):
    def policy(self):
        return replace(HyperGradient(), rule="product")
