"""Flower's strategies as a trial's aggregator: state, fork, resume; with our own clients."""

import json

import numpy as np
import pytest
from flwr.serverapp import strategy as flowers

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.federations.strategies.named import named_strategy
from fedhpo.federations.strategies.state import StrategyState, state_of
from fedhpo.federations.strategies.step import EXAMPLES, Reply, StrategyFailed, aggregated
from fedhpo.protocol.federation import Status, TrialState, Work
from fedhpo.study import Study
from fedhpo.testing.federation import FederationSuite
from fedhpo.testing.strategy import StrategySuite

FIXED = "DifferentialPrivacyServerSideFixedClipping"
ADAPTIVE = "DifferentialPrivacyServerSideAdaptiveClipping"
#: Every strategy of Flower's that needs no special client, with arguments under which it has state or noise.
ALL = {
    "FedAvg": {},
    "FedAvgM": {"server_learning_rate": 0.7, "server_momentum": 0.9},
    "FedAdam": {"eta": 0.05},
    "FedYogi": {"eta": 0.05},
    "FedAdagrad": {"eta": 0.05},
    "FedProx": {"proximal_mu": 0.1},
    "Krum": {"num_malicious_nodes": 1},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 3},
    "Bulyan": {"num_malicious_nodes": 0},
    "FedMedian": {},
    "FedTrimmedAvg": {"beta": 0.2},
    "QFedAvg": {"client_learning_rate": 0.1, "q": 0.2},
    FIXED: {"noise_multiplier": 0.1, "clipping_norm": 1.0},
    f"{ADAPTIVE}(FedAdam)": {"noise_multiplier": 0.1, "initial_clipping_norm": 0.5},
}


def _suite(name):
    def make(self):
        return named_strategy(name, own_clients=False).build(ALL[name], 6)

    return type("Test" + "".join(filter(str.isalnum, name)), (StrategySuite,), {"make": make})


globals().update({suite.__name__: suite for suite in map(_suite, ALL)})


def test_fedadam_by_hand():
    """One parameter, one client: the first step of Adam with Flower's correction of the learning rate."""
    made, _ = aggregated(
        lambda: flowers.FedAdam(eta=0.1, beta_1=0.9, beta_2=0.99, tau=1e-3),
        StrategyState(),
        1,
        {"w": np.zeros(1)},
        [Reply(0, {"w": np.ones(1)}, {EXAMPLES: 1})],
    )
    rate = 0.1 * np.sqrt(1 - 0.99**2) / (1 - 0.9**2)
    assert made["w"][0] == pytest.approx(rate * 0.1 / (np.sqrt(0.01) + 1e-3))


def test_a_strategy_that_fails_says_so():
    first = {"w": np.zeros(2)}
    with pytest.raises(StrategyFailed, match="FedAvg"):
        aggregated(flowers.FedAvg, StrategyState(), 1, first, [Reply(0, first, {})])


class Odd(flowers.FedAvg):
    """Remembers what cannot be written down."""

    def aggregate_train(self, server_round, replies):
        self.seen = {1, 2}
        return super().aggregate_train(server_round, replies)


def test_what_cannot_be_kept_is_named():
    used = Odd()
    used.seen = {1, 2}
    with pytest.raises(InputError, match=r"Odd\.seen is a set, which cannot be kept"):
        state_of(used, Odd())


# With our own clients.

DATA = fh.load("digits", clients=8)
KRUM = {"num_malicious_nodes": 1}


def simulated(strategy):
    return fh.simulate("linear", DATA, strategy=strategy, workers=0)


class _Suite(FederationSuite):
    strategy = "FedAdam"
    server = {"eta": 0.02}  # noqa: RUF012
    test_an_unknown_hyperparameter_is_named_with_the_known = None  # no strategy has `lr`; see below

    def make(self):
        return simulated(self.strategy)


class TestSimulatedFedAdam(_Suite):
    """Strategies pass the suite of federations, in simulation."""

    # Flower's mean of equal models differs in the last bit, which FedAdam makes larger.
    test_a_round_in_which_nobody_moves_changes_no_score = None


class TestSimulatedKrum(_Suite):
    strategy, server = "Krum", KRUM


@pytest.mark.parametrize(("name", "server"), [("FedAdam", {"eta": 0.02}), ("Krum", KRUM)])
def test_fork_and_resume_are_identical(name, server):
    def rounds(federation, trial, count):
        for _ in range(count):
            federation.round([Work(trial, [0, 1, 2, 3, 4], {"lr": 0.2}, server)])

    with simulated(name) as federation:
        federation.start(0, {}, seed=3)
        rounds(federation, 0, 2)
        saved = federation.state(0)
        federation.start(1, {}, seed=3)
        federation.fork(0, 1)
        rounds(federation, 0, 2)
        whole = federation.state(0).arrays["weights"]
    facts = json.loads(json.dumps(dict(saved.facts)))
    with simulated(name) as federation:
        federation.restore(0, TrialState(saved.arrays, facts))
        rounds(federation, 0, 2)
        assert federation.state(0).arrays["weights"].tobytes() == whole.tobytes()


def test_a_strategy_that_needs_more_replies_is_a_round_that_does_not_count():
    with simulated("Bulyan") as federation:
        federation.start(0, {}, seed=0)
        work = Work(0, [0, 1], {"lr": 0.1}, {"num_malicious_nodes": 1})
        [report] = federation.round([work])
        assert not report.applied
        assert set(report.status) == {Status.FAILED}
        assert "Bulyan" in report.reasons[0].text


def test_an_argument_that_the_strategy_does_not_have_is_named():
    with simulated("FedAdam") as federation:
        federation.start(0, {}, seed=0)
        with pytest.raises(InputError, match=r"argument of server.strategy = 'FedAdam', 'lr'.*beta_1"):
            federation.round([Work(0, [0, 1], {"lr": 0.1}, {"lr": 0.1})])


TABLES = {
    "data": {"name": "digits", "clients": 8},
    "model": {"name": "linear"},
    "server": {"strategy": "FedAdam"},
    "space": {
        "client": {"lr": {"low": 0.01, "high": 1.0, "log": True}},
        "server": {"eta": {"low": 0.001, "high": 0.1, "log": True}, "beta_1": 0.8},
    },
    "method": {"name": "random", "trials": 2},
    "budget": {"rounds": 2, "total": 4, "cohort": 4},
}


def test_a_study_tunes_the_arguments_of_a_strategy():
    result = Study.from_dict(TABLES).tune(workers=0)
    assert set(result.best_config.server) == {"eta", "beta_1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"server": {"strategy": "FedAdm"}}, r"server\.strategy = 'FedAdm'.*did you mean 'FedAdam'"),
        ({"server": {"strategy": "FedAvg(Krum)"}}, "FedAvg wraps no other strategy"),
        ({"server": {"strategy": "FedProx"}}, r"space\.client\.prox"),
        (
            {"server": {"strategy": "FedAdam", "optimiser": "fedavg"}},
            r"server\.optimiser = 'fedavg': counts only where strategy is left out.*: leave it out",
        ),
        ({"space": {"server": {"lr": {"low": 0.1, "high": 1.0}}}}, r"space\.server\.lr: unknown argument"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(InputError, match=message):
        Study.from_dict({**TABLES, **change})
